import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { existsSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS, withPlugins } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Starts a Graphite that keeps the lines of each push. */
async function graphite() {
  const pushes: string[][] = []
  const server = createServer(socket => {
    let text = ''
    socket.on('data', data => {
      text += data
    })
    socket.on('end', () => {
      pushes.push(text.trim().split('\n'))
      socket.end()
    })
    socket.on('error', () => {})
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  after(() => server.close())
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, pushes }
}

async function statsd() {
  const lines: string[] = []
  const socket = createSocket('udp4')
  socket.on('message', message => lines.push(...String(message).split('\n')))
  await new Promise<void>(resolve => socket.bind(0, '127.0.0.1', resolve))
  after(() => socket.close())
  return { address: `127.0.0.1:${socket.address().port}`, lines }
}

/** Returns the name of each line, without host, instance and value. */
const carbonNames = (lines: readonly string[]) =>
  lines.map(line => line.replace(/^uwsgi\.[^.]+\.[^.]+\.(\S+) [0-9]+ [0-9]{10}$/, '$1'))
const statsdNames = (lines: readonly string[]) =>
  lines.map(line => line.replace(/^app\.(\S+):-?[0-9]+\|([cg])$/, '$1 $2'))

for (const uwsgi of UWSGIS)
  describe(`the statistics that spoold pushes, beside those of ${uwsgi.title}`, {
    skip: skipUnless(uwsgi.needs),
  }, () => {
    it("have all of uWSGI's names for Graphite", async () => {
      const [theirs, ours] = [await graphite(), await graphite()]
      startUwsgi({
        uwsgi,
        spool: spoolDirectory(),
        handler: 'uwsgi.spooler = lambda env: uwsgi.SPOOL_OK',
        args: [
          ...withPlugins(uwsgi, 'carbon'),
          '--socket',
          '127.0.0.1:0',
          '--memory-report',
          '--carbon',
          theirs.address,
          '--carbon-freq',
          '1',
        ],
      })
      const spool = spoolDirectory()
      await startDaemon({ spool, ini: { carbon: ours.address, 'carbon-freq': 1 } })
      drop(spool)
      await until('the task has run', () => leftIn(spool).length === 0)
      const counted = await until('a push counts the task', () =>
        ours.pushes.find(lines => / 1 [0-9]{10}$/.test(lines[0] ?? '')),
      )
      await until('uWSGI has pushed', () => theirs.pushes.length > 0)
      const [theirNames, ourNames] = [carbonNames(theirs.pushes[0] ?? []), carbonNames(counted)]
      assert.ok(theirNames.length > 10, theirNames.join(' '))
      // spoold has the names of uWSGI 2.1, which are more
      assert.deepEqual(
        theirNames.filter(name => !ourNames.includes(name)),
        [],
      )
    })

    it("have uWSGI's names for a worker in statsd, and send a counter as what was added", async () => {
      const [theirs, ours] = [await statsd(), await statsd()]
      startUwsgi({
        uwsgi,
        spool: spoolDirectory(),
        handler: 'uwsgi.spooler = lambda env: uwsgi.SPOOL_OK',
        args: [
          ...withPlugins(uwsgi, 'stats_pusher_statsd'),
          '--socket',
          '127.0.0.1:0',
          '--stats-push',
          `statsd:${theirs.address},app`,
        ],
      })
      const spool = spoolDirectory()
      await startDaemon({
        spool,
        ini: { 'stats-push': `statsd:${ours.address},app`, 'stats-pusher-default-freq': 1 },
      })
      const requests = () => ours.lines.filter(line => line.startsWith('app.worker.1.requests:'))
      await until('a push came before the task', () => requests().length > 0)
      drop(spool)
      await until('a push counts the task', () => requests().includes('app.worker.1.requests:1|c'))
      const counted = requests().indexOf('app.worker.1.requests:1|c')
      await until('two more pushes have come', () => requests().length > counted + 2)
      assert.equal(requests().filter(line => line.endsWith(':1|c')).length, 1, 'each request is counted once')
      await until('uWSGI has pushed', () => theirs.lines.some(line => line.includes('worker.1.requests')))
      const known = new Set(statsdNames(theirs.lines))
      const shared = statsdNames(ours.lines).filter(
        name => /^worker\.1\./.test(name) && !/delta_requests/.test(name),
      )
      assert.deepEqual(
        shared.filter(name => !known.has(name)),
        [],
      )
    })
  })

describe('the statistics that spoold pushes', () => {
  it('go to a file as one JSON document per push', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'stats.log')
    await startDaemon({
      spool,
      ini: { 'stats-push': `file:path=${path},freq=1,separator=;`, 'stats-min': true },
    })
    const text = await until('two documents are written', () => {
      const written = existsSync(path) ? readFileSync(path, 'utf8') : ''
      return written.split(';').length > 2 ? written : undefined
    })
    for (const document of text.split(';').slice(0, 2))
      assert.equal(JSON.parse(document).spoolers[0].dir, spool)
  })

  it('cost one warning and no task while their server is away, and go on when it is back', async () => {
    const spool = spoolDirectory()
    const closed = createServer()
    await new Promise<void>(resolve => closed.listen(0, '127.0.0.1', resolve))
    const { port } = closed.address() as AddressInfo
    closed.close()
    const daemon = await startDaemon({ spool, ini: { carbon: `127.0.0.1:${port}`, 'carbon-freq': 1 } })
    await until('the warning is logged', () => daemon.output.includes('carbon: '))
    drop(spool)
    await until('the task has run', () => leftIn(spool).length === 0)
    const server = createServer(socket =>
      socket
        .resume()
        .on('error', () => {})
        .on('end', () => socket.end()),
    )
    let pushes = 0
    server.on('connection', () => pushes++)
    await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
    after(() => server.close())
    await until('the server gets pushes again', () => pushes >= 2)
    assert.equal(daemon.output.split('carbon: ').length, 2, 'one warning')
  })
})
