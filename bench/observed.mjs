// The CPU time per task with statistics and metrics that are read each second, beside none.
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import {
  childrenOf,
  cpuSecondsOf,
  fill,
  inPairs,
  leftOnTmpfs,
  startSpoold,
  until,
  withDirectory,
} from './harness.mjs'

const PUBLISHED = ['--stats', '127.0.0.1:0', '--spooler-metrics', '127.0.0.1:0']
const EVERY_MS = 1000

/** Seconds of the daemon and its workers, with the children that have ended, without the exporter, whose work is no task's. */
function cpuOf(pid) {
  const workers = childrenOf(pid).filter(
    child => !readFileSync(`/proc/${child}/cmdline`, 'latin1').includes('exporter.cjs'),
  )
  return [pid, ...workers].reduce((sum, each) => sum + cpuSecondsOf(each), 0)
}

/** Reads both answers each second, until it is stopped. */
async function observe(daemon) {
  const portOf = what =>
    until(
      `${what} is published`,
      () => new RegExp(`${what} enabled on \\S+:([0-9]+)`).exec(daemon.log())?.[1],
    )
  const [stats, metrics] = [await portOf('Stats server'), await portOf('metrics')]
  let answers = 0
  const ask = () => {
    connect(Number(stats), '127.0.0.1')
      .on('error', () => {})
      .on('end', () => answers++)
      .resume()
    fetch(`http://127.0.0.1:${metrics}/metrics`)
      .then(response => response.text())
      .then(
        () => answers++,
        () => {},
      )
  }
  ask()
  const timer = setInterval(ask, EVERY_MS)
  return () => {
    clearInterval(timer)
    if (answers === 0) throw new Error('nothing was observed')
  }
}

/** Tasks per second of CPU time, from a tenth of them on, when the processes are warm. */
function tasksPerCpuSecond(count, isObserved) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    const total = leftOnTmpfs(spool)
    const options = ['--spooler-processes', '2', '--spooler-quiet', ...(isObserved ? PUBLISHED : [])]
    const daemon = startSpoold(directory, spool, options)
    try {
      const stop = isObserved ? await observe(daemon) : () => {}
      const marks = []
      const mark = left => marks.push({ cpu: cpuOf(daemon.pid), left })
      await until('a tenth is done', () => leftOnTmpfs(spool) < total * 0.9 && mark(leftOnTmpfs(spool)))
      await until('all is done', () => leftOnTmpfs(spool) < 2 && mark(leftOnTmpfs(spool))) // .spoold stays
      stop()
      const [tenth, last] = marks
      return { 'tasks per second of CPU': (tenth.left - last.left) / (last.cpu - tenth.cpu) }
    } finally {
      await daemon.stop()
    }
  })
}

export const title = 'Statistics and metrics that are read each second'
export const about = `tmpfs, two processes, 200,000 no-op tasks; tasks per second of CPU time of the daemon and its workers, from
a tenth on. "spoold" is observed: the stats server and the metrics are read each second. "Peer" is a spoold that publishes
nothing.`

export async function run({ pairs, scale, say }) {
  const count = Math.round(200_000 * scale)
  const figures = await inPairs(
    Math.max(pairs, scale === 1 ? 20 : 1),
    () => tasksPerCpuSecond(count, true),
    () => tasksPerCpuSecond(count, false),
    (mine, theirs) =>
      say(
        Object.values({ ...mine, b: Object.values(theirs)[0] })
          .map(Math.round)
          .join(' / '),
      ),
  )
  return { rows: figures.map(figure => ({ case: 'observed', target: 0.97, ...figure })) }
}
