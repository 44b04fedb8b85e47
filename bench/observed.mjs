// The work per task with statistics and metrics that are read each second, beside none.
import { connect } from 'node:net'
import { join } from 'node:path'
import { childrenOf, fill, inPairs, leftOnTmpfs, startSpoold, until, withDirectory } from './harness.mjs'
import { builtAt, sample, UNIT, workOf } from './instructions.mjs'
import { isExporter, portOf } from './published.mjs'

const PUBLISHED = ['--stats', '127.0.0.1:0', '--spooler-metrics', '127.0.0.1:0']
const EVERY_MS = 1000
const COUNT = 350_000
/** The shares of the tasks that are left when counting begins and ends: scans fall between them, as in a long run. */
const [FROM, TO] = [0.9, 0.1]
/** Deadline of a count, long enough for a machine that others use. */
const LONGEST_MS = 600_000

/** Reads both answers each second. Returns a function that ends that. */
async function observe(daemon) {
  const [stats, metrics] = [await portOf(daemon, 'Stats server'), await portOf(daemon, 'metrics')]
  const answers = { stats: 0, metrics: 0 }
  let areCounted = false
  const ask = () => {
    connect(stats, '127.0.0.1')
      .on('error', () => {})
      .on('end', () => answers.stats++)
      .resume()
    fetch(`http://127.0.0.1:${metrics}/metrics`)
      .then(response => response.text())
      .then(
        text => {
          answers.metrics++
          areCounted ||= text.includes('spooler_stored_tasks{')
        },
        () => {},
      )
  }
  ask()
  const timer = setInterval(ask, EVERY_MS)
  await until('the names are counted', () => areCounted)
  return () => {
    clearInterval(timer)
    if (answers.stats === 0 || answers.metrics === 0) throw new Error('nothing was observed')
  }
}

/** Returns tasks per `UNIT` of work from a tenth to nine tenths of the tasks, when the processes are warm. */
function taskRate(count, isObserved) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    const total = leftOnTmpfs(spool)
    const built = builtAt()
    const options = ['--spooler-processes', '2', '--spooler-quiet', ...(isObserved ? PUBLISHED : [])]
    const daemon = startSpoold(directory, spool, options)
    try {
      const stop = isObserved ? await observe(daemon) : () => {}
      await until('a tenth is done', () => leftOnTmpfs(spool) < total * FROM)
      const children = childrenOf(daemon.pid)
      const own = await workOf([daemon.pid, ...children.filter(pid => !isExporter(pid))])
      const exporters = await workOf(children.filter(isExporter))
      const before = leftOnTmpfs(spool)
      await until('nine tenths are done', () => leftOnTmpfs(spool) < total * TO, LONGEST_MS)
      const left = leftOnTmpfs(spool)
      const [mine, others] = [await own(), await exporters()]
      stop()
      if (before < total * 0.5) throw new Error(`only ${before} were left when it began to count`)
      if (builtAt() !== built) throw new Error('dist was built anew meanwhile')
      const rate = work => (before - left) / work
      return { 'master and workers': rate(mine), 'whole tree': rate(mine + others) }
    } finally {
      await daemon.stop()
    }
  })
}

export const title = 'Statistics and metrics that are read each second'
export const about = `tmpfs, two processes, 350,000 no-op tasks; tasks per ${UNIT} (perf stat, user and kernel), from a
tenth to nine tenths of the tasks. "spoold" is observed: the stats server and the metrics are read each second. "Peer" is a
spoold that publishes nothing. "Whole tree" counts the exporter, too, whose work is no task's. Not in it is what is done at most once a minute: a count of
the names of a spool that has more tasks than the daemon keeps in memory, which takes half a percent of one processor's time at most.`

export async function run({ pairs, scale, say }) {
  const figures = await inPairs(
    Math.max(pairs, scale === 1 ? 20 : 1),
    () => sample(() => taskRate(COUNT, true), say),
    () => sample(() => taskRate(COUNT, false), say),
    (mine, theirs) =>
      say(
        Object.keys(mine)
          .map(name => `${name}: ${mine[name].toFixed(3)} / ${theirs[name].toFixed(3)}`)
          .join(', '),
      ),
  )
  return {
    rows: figures.map(figure => ({
      case: 'observed',
      ...(figure.name === 'master and workers' ? { target: 0.97 } : {}),
      ...figure,
    })),
  }
}
