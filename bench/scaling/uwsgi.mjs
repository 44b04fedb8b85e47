// Request workers of a uWSGI that adapt, under the same load: each task is a request that sleeps.
import { readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { percentile, start, until, withDirectory } from '../harness.mjs'
import { MAXIMUM, play, reversalsOf } from './arrivals.mjs'

const APPLICATION = `import time
def application(env, start_response):
    time.sleep(float(env['QUERY_STRING']) / 1000)
    start_response('200 OK', [])
    return [b'']
`
/** The length of the listen queue, where requests wait, and which no backlog of a test may overflow. */
const LISTEN = Math.min(4096, Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8')))

/** @param algorithm one that the installed uWSGI has: spare, backlog, busyness */
export function runUwsgi(algorithm, arrivals, seconds) {
  return withDirectory('memory', async directory => {
    writeFileSync(join(directory, 'app.py'), APPLICATION)
    const [port, stats] = [await freePort(), await freePort()]
    const args = [
      '--plugin',
      'python3',
      '--master',
      '--http-socket',
      `127.0.0.1:${port}`,
      '--disable-logging',
      '--die-on-term',
    ]
    const scaling = [
      '--workers',
      String(MAXIMUM),
      '--cheaper',
      '1',
      '--cheaper-algo',
      algorithm,
      '--listen',
      String(LISTEN),
    ]
    if (algorithm === 'busyness') args.unshift('--plugin', 'cheaper_busyness')
    const where = ['--wsgi-file', join(directory, 'app.py'), '--stats', `127.0.0.1:${stats}`]
    const server = start('uwsgi', [...args, ...scaling, ...where], join(directory, 'log'))
    const present = async () =>
      JSON.parse(await read(stats)).workers.filter(({ status, pid }) => status !== 'cheap' && pid > 0).length
    try {
      await until('it serves', () =>
        request(port, 1).then(
          () => true,
          () => false,
        ),
      )
      const workers = new Array(seconds)
      const waits = []
      const asked = []
      const pending = new Map()
      await play(arrivals, seconds, {
        begin: (number, ms) => {
          const from = performance.now()
          pending.set(number, from)
          request(port, ms).then(
            () => {
              pending.delete(number)
              waits.push(performance.now() - from - ms)
            },
            () => {},
          )
        },
        second: at => {
          asked.push(present().then(count => (workers[at - 1] = count)))
        },
      })
      await Promise.all(asked)
      const late = [...pending.values()].map(from => performance.now() - from)
      return {
        workers,
        p95Ms: Math.round(percentile([...waits, ...late], 95)),
        processSeconds: workers.reduce((sum, count) => sum + count, 0),
        reversals: reversalsOf(workers.map((count, at) => count - (workers[at - 1] ?? count))),
      }
    } finally {
      await server.stop()
    }
  })
}

function request(port, ms) {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`GET /?${ms.toFixed(3)} HTTP/1.0\r\n\r\n`))
    socket.on('data', () => {})
    socket.once('end', resolve)
    socket.once('error', reject)
  })
}

function read(port) {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(port, '127.0.0.1')
    socket.on('data', chunk => (text += chunk))
    socket.once('end', () => resolve(text))
    socket.once('error', reject)
  })
}

function freePort() {
  return new Promise(resolve => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}
