// Tasks beside many slow clients of what a daemon publishes.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { childrenOf, fill, inPairs, leftOnTmpfs, startSpoold, until, withDirectory } from './harness.mjs'
import { sample, UNIT, workOf } from './instructions.mjs'
import { isExporter, portOf } from './published.mjs'

const CROWD = 2000
const COUNT = 110_000
/** The shares of the tasks that are left when counting begins and ends. */
const [FROM, TO] = [0.9, 0.05]
/** Deadline of a count, long enough for a machine that others use. */
const LONGEST_MS = 600_000
/** Each client sends one more byte of its request, or comes again, this often. */
const DRIP_MS = 1000

const REQUESTS = {
  control: '{"v":1,"id":1,"verb":"snapshot"}\n',
  stats: 'a client of the stats server that talks',
  metrics: 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n',
}

/** Returns tasks per second, and per `UNIT` of work, beside `crowd` clients. */
function rates(count, crowd) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    const total = leftOnTmpfs(spool)
    const published = ['--stats', '127.0.0.1:0', '--spooler-metrics', '127.0.0.1:0']
    const options = ['--spooler-processes', '2', '--spooler-quiet', ...published]
    const daemon = startSpoold(directory, spool, options)
    let clients
    try {
      const [stats, metrics] = [await portOf(daemon, 'Stats server'), await portOf(daemon, 'metrics')]
      if (crowd > 0) {
        clients = fork(
          fileURLToPath(import.meta.url),
          [join(spool, '.spoold/control'), stats, metrics, crowd].map(String),
        )
        await once(clients, 'message') // all of them have connected, or tried to
      }
      await until('a tenth is done', () => leftOnTmpfs(spool) < total * FROM)
      const stop = await workOf([daemon.pid, ...childrenOf(daemon.pid).filter(pid => !isExporter(pid))])
      const [before, since] = [leftOnTmpfs(spool), performance.now()]
      await until('most are done', () => leftOnTmpfs(spool) < total * TO, LONGEST_MS)
      const [done, seconds] = [before - leftOnTmpfs(spool), (performance.now() - since) / 1000]
      const work = await stop()
      if (done < total * 0.4) throw new Error(`only ${done} tasks were left when it began to count`)
      return {
        [`tasks per ${UNIT} of master and workers`]: done / work,
        'tasks per second': done / seconds,
      }
    } finally {
      clients?.kill()
      await daemon.stop()
    }
  })
}

export const title = '2,000 slow clients of control socket, stats and metrics'
export const about = `tmpfs, two processes, 110,000 no-op tasks, from a tenth of them on. "spoold" has the clients, a third at each place, who
send one byte per second, read nothing, and come again when they are sent away; "peer" is a spoold without. Work is that of
master and workers (perf stat, user and kernel), not those of clients and exporter. The clients cost the master the same each second, however
many tasks run in it, so on a busy machine they cost more per task. Clients and exporter take processors, too, so tasks per second say what is
left of two.`

export async function run({ pairs, scale, say }) {
  const figures = await inPairs(
    pairs,
    () => sample(() => rates(COUNT, Math.round(CROWD * scale)), say),
    () => sample(() => rates(COUNT, 0), say),
    (mine, theirs) =>
      say(
        Object.keys(mine)
          .map(name => `${name}: ${mine[name].toFixed(2)} / ${theirs[name].toFixed(2)}`)
          .join(', '),
      ),
  )
  return { rows: figures.map(figure => ({ case: `${CROWD} clients`, ...figure })) }
}

/** Runs the clients, in a process of its own. */
function comeInCrowds(control, stats, metrics, count) {
  const places = [
    [{ path: control }, REQUESTS.control],
    [{ port: stats, host: '127.0.0.1' }, REQUESTS.stats],
    [{ port: metrics, host: '127.0.0.1' }, REQUESTS.metrics],
  ]
  const clients = Array.from({ length: count }, (_, i) => ({ place: places[i % places.length], at: 0 }))
  const turn = () => {
    for (const client of clients) {
      const [place, request] = client.place
      if (client.socket === undefined || client.socket.destroyed) {
        client.at = 0
        client.socket = connect(place).pause()
        client.socket.on('error', () => client.socket.destroy())
      }
      client.socket.write(request[client.at++ % request.length])
    }
  }
  turn()
  setInterval(turn, DRIP_MS)
  process.send('all came')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [control, stats, metrics, count] = process.argv.slice(2)
  comeInCrowds(control, Number(stats), Number(metrics), Number(count))
}
