/** The beginning of a module: `journal` appends a line with the time to the journal that all machines share. */
const JOURNAL = (file: string) => `
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
const journal = line =>
  appendFileSync(${JSON.stringify(file)}, line + ' ' + Math.round(performance.timeOrigin + performance.now()) + '\\n')
`

/** How many tasks of the name `few` run at a time, over all machines. */
export const FEW = 2

/** Journals when and where each run begins and ends; for `few`, also its fencing token. */
export const HANDLER = (journal: string) => `${JOURNAL(journal)}
import { currentTask, Tasks } from 'spoold'
const run = async (kind, n, ms) => {
  journal('begin ' + kind + ' ' + n + ' ' + process.pid)
  await sleep(Number(ms))
  journal('end ' + kind + ' ' + n + ' ' + process.pid)
}
export const tasks = new Tasks({ retryDelay: 0 })
tasks.task('few', { maxConcurrency: ${FEW}, maxRetries: 99 }, async (n, ms) => {
  journal('fence few ' + n + ' ' + currentTask().fencingToken)
  await run('few', n, ms)
})
export default async (env, task) => {
  await run(env.kind, env.n, env.ms)
  return task.SPOOL_OK
}
`

export interface ProducerSettings {
  readonly journal: string
  readonly spooler: string
  readonly count: number
  readonly pauseMs: number
  readonly callers: number
  /** The kind and the length of each task: `once` is delivered at most once. */
  readonly tasks: ReadonlyArray<{ readonly kind: string; readonly ms: number }>
}

/** Stores tasks, and journals which ones were acknowledged. */
export const PRODUCER = ({ journal, spooler, count, pauseMs, callers, tasks }: ProducerSettings) => `
${JOURNAL(journal)}
import { spool } from './dist/index.js'
const tasks = ${JSON.stringify(tasks)}
let next = 0
const caller = async () => {
  while (next < ${count}) {
    const n = next++
    const { kind, ms } = tasks[n % tasks.length]
    const delivery = kind === 'once' ? { spooler_delivery: 'at-most-once' } : {}
    const vars = kind === 'few' ? { task: 'few', args: JSON.stringify([n, ms]) } : { n, kind, ms, ...delivery }
    await spool(vars, { spooler: ${JSON.stringify(spooler)} }).then(
      () => journal('stored ' + kind + ' ' + n + ' -'),
      () => {}, // it was refused, and who stores it knows that
    )
    await sleep(${pauseMs})
  }
}
await Promise.all(Array.from({ length: ${callers} }, caller))
process.exit(0)
`
