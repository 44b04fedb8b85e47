// The instructions per task with an adaptive number of processes, beside a fixed one.
import { join } from 'node:path'
import { childrenOf, fill, inPairs, leftOnTmpfs, startSpoold, until, withDirectory } from './harness.mjs'
import { builtAt, instructionsOf, sample } from './instructions.mjs'

const COUNT = 100_000
const PROCESSES = 2
const ALGORITHMS = ['spare', 'busyness', 'latency']

/** As many processes as the fixed ones, from the start and as long as there is as much to do. */
const adaptive = algorithm => [
  ...['--spooler-cheaper', '1', '--spooler-cheaper-initial', String(PROCESSES)],
  ...['--spooler-cheaper-algo', algorithm],
]

/** Tasks per million instructions of master and workers, from the first tenth of the tasks to the last. */
function tasksPerMillion(count, options) {
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
      const counted = await instructionsOf([daemon.pid, ...before])
      const first = leftOnTmpfs(spool)
      await until('a tenth is left', () => leftOnTmpfs(spool) < total * 0.1)
      const last = leftOnTmpfs(spool)
      const instructions = await counted()
      const after = childrenOf(daemon.pid)
      if (before.length !== PROCESSES || after.join() !== before.join())
        throw new Error(`expected ${PROCESSES} processes all the time, got ${before} and ${after}`)
      if (builtAt() !== built) throw new Error('dist was built anew meanwhile')
      return { tasks: (1e6 * (first - last)) / instructions }
    } finally {
      await daemon.stop()
    }
  })
}

export const title = 'An adaptive number of processes, beside a fixed one'
export const about = `tmpfs, two processes, ${COUNT.toLocaleString('en')} no-op tasks; tasks per million instructions (perf stat, user and kernel, master and workers),
from the first tenth of the tasks to the last. "spoold" has \`spooler-cheaper = 1\`, "peer" a fixed number, and both have two processes all the
time.`

export async function run({ pairs, scale, say }) {
  const rows = []
  for (const algorithm of ALGORITHMS) {
    const [figure] = await inPairs(
      Math.max(pairs, scale === 1 ? 20 : 1),
      () => sample(() => tasksPerMillion(COUNT, adaptive(algorithm)), say),
      () => sample(() => tasksPerMillion(COUNT, []), say),
      (mine, theirs) => say(`${algorithm}: ${mine.tasks.toFixed(3)} / ${theirs.tasks.toFixed(3)}`),
    )
    rows.push({ ...figure, case: algorithm, name: 'tasks per million instructions', target: 0.97 })
  }
  return { rows }
}
