// The work per task with an adaptive number of processes, beside a fixed one.
import { join } from 'node:path'
import { childrenOf, fill, inPairs, leftOnTmpfs, startSpoold, until, withDirectory } from './harness.mjs'
import { builtAt, sample, UNIT, workOf } from './instructions.mjs'

const COUNT = 100_000
const PROCESSES = 2
const ALGORITHMS = ['spare', 'busyness', 'latency']

/** Options with which there are PROCESSES processes, too, from the start and as long as there is enough to do. */
const adaptive = algorithm => [
  ...['--spooler-cheaper', '1', '--spooler-cheaper-initial', String(PROCESSES)],
  ...['--spooler-cheaper-algo', algorithm],
]

/** Returns tasks per `UNIT` of work of master and workers, from the first tenth of the tasks to the last. */
function taskRate(count, options) {
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, count)
    const total = leftOnTmpfs(spool)
    const built = builtAt()
    const daemon = startSpoold(directory, spool, [
      ...['--spooler-processes', String(PROCESSES), '--spooler-quiet'],
      ...options,
    ])
    try {
      await until('a tenth is done', () => leftOnTmpfs(spool) < total * 0.9)
      const before = childrenOf(daemon.pid)
      const counted = await workOf([daemon.pid, ...before])
      const first = leftOnTmpfs(spool)
      await until('a tenth is left', () => leftOnTmpfs(spool) < total * 0.1)
      const last = leftOnTmpfs(spool)
      const work = await counted()
      const after = childrenOf(daemon.pid)
      if (before.length !== PROCESSES || after.join() !== before.join())
        throw new Error(`expected ${PROCESSES} processes all the time, got ${before} and ${after}`)
      if (builtAt() !== built) throw new Error('dist was built anew meanwhile')
      return { tasks: (first - last) / work }
    } finally {
      await daemon.stop()
    }
  })
}

export const title = 'An adaptive number of processes, beside a fixed one'
export const about = `tmpfs, two processes, ${COUNT.toLocaleString('en')} no-op tasks; tasks per ${UNIT} (perf stat, user and kernel, master and workers),
from the first tenth of the tasks to the last. "spoold" has \`spooler-cheaper = 1\`, "peer" a fixed number, and both have two processes all the
time.`

export async function run({ pairs, scale, say }) {
  const rows = []
  for (const algorithm of ALGORITHMS) {
    const [figure] = await inPairs(
      Math.max(pairs, scale === 1 ? 20 : 1),
      () => sample(() => taskRate(COUNT, adaptive(algorithm)), say),
      () => sample(() => taskRate(COUNT, []), say),
      (mine, theirs) => say(`${algorithm}: ${mine.tasks.toFixed(3)} / ${theirs.tasks.toFixed(3)}`),
    )
    rows.push({ ...figure, case: algorithm, name: `tasks per ${UNIT}`, target: 0.97 })
  }
  return { rows }
}
