/** Appends a line with the time to the journal that all machines share. */
const JOURNAL = (file: string) => `
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
const journal = line =>
  appendFileSync(${JSON.stringify(file)}, line + ' ' + Math.round(performance.timeOrigin + performance.now()) + '\\n')
`

/** Says when each run begins and ends, and where. */
export const HANDLER = (journal: string) => `${JOURNAL(journal)}
export default async (env, task) => {
  journal('begin ' + env.kind + ' ' + env.n + ' ' + process.pid)
  await sleep(Number(env.ms))
  journal('end ' + env.kind + ' ' + env.n + ' ' + process.pid)
  return task.SPOOL_OK
}
`

export interface ProducerSettings {
  readonly journal: string
  readonly spooler: string
  readonly count: number
  readonly pauseMs: number
  readonly callers: number
  /** What each task is like: `once` is delivered at most once. */
  readonly tasks: ReadonlyArray<{ readonly kind: string; readonly ms: number }>
}

/** Stores tasks, and says which ones were acknowledged. */
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
    await spool({ n, kind, ms, ...delivery }, { spooler: ${JSON.stringify(spooler)} }).then(
      () => journal('stored ' + kind + ' ' + n + ' -'),
      () => {}, // it was refused, and who stores it knows that
    )
    await sleep(${pauseMs})
  }
}
await Promise.all(Array.from({ length: ${callers} }, caller))
process.exit(0)
`
