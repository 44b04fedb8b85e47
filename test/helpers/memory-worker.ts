import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Report } from '#src/base/task/report.js'
import type { ClaimsSettings } from '#src/engines/claims.js'
import type { TaskOptions } from '#src/engines/client/request-from.js'
import { MemoryClaims } from '#src/engines/memory/claims.js'
import { MemoryEnqueuer } from '#src/engines/memory/enqueuer.js'
import { MemoryFeed } from '#src/engines/memory/feed.js'
import { MemorySpool } from '#src/engines/memory/spool.js'
import { Marks } from '#src/runtime/ipc/marks.js'
import type { WorkerMessage, WorkerOptions } from '#src/runtime/ipc/messages.js'
import { eachOf, eachReport, type GivenTask } from '#src/runtime/ipc/reports.js'
import { Worker } from '#src/runtime/worker/worker.js'
import { CLAIMS_DEFAULTS } from './engine.js'
import { requestFrom } from './request.js'
import { until } from './until.js'
import { spoolDirectory } from './workspace.js'

const opened = new Set<MemoryFeed>()

/** Closes all feeds. To be called after each test, because an open feed keeps the process alive. */
export function closeFeeds(): void {
  for (const feed of opened) feed.close()
  opened.clear()
}

/** The messages after which a worker takes no more tasks. */
const LEAVING: ReadonlySet<string> = new Set(['recycling', 'unfit', 'faulted'])

interface Entry {
  readonly n: string
  readonly attempt: number
}

/**
 * A worker in this process over an in-memory spool, with a minimal master. `source` is the body of an async handler. It
 * can use `env`, `task`, `journal(env.n)` and `hold(env.n)`, a promise that the test settles with `letGo`.
 */
export async function memoryWorker(
  source: string,
  options: Partial<WorkerOptions> = {},
  claimsOptions: Partial<ClaimsSettings> = {},
) {
  const directory = spoolDirectory()
  const file = join(directory, 'handler.mjs')
  const key = `journal of ${file}`
  const journal: Entry[] = []
  const held = new Map<string, () => void>()
  const hold = (n: string) => new Promise<void>(resolve => held.set(n, resolve))
  Object.assign(globalThis, { [key]: { journal, hold } })
  writeFileSync(
    file,
    `const { journal, hold } = globalThis[${JSON.stringify(key)}]
    export default async (env, task) => {
      journal.push({ n: env.n, attempt: task.attempt })
      ${source}
    }`,
  )
  const spool = new MemorySpool('memory:test')
  const feed = new MemoryFeed(spool, 50)
  opened.add(feed)
  const enqueuer = new MemoryEnqueuer(spool)
  const reports: Report[] = []
  const messages: Array<WorkerMessage> = []
  const given: Array<GivenTask & { readonly name: string | undefined }> = []
  let exitCode: number | undefined
  let room = 0

  const worker: Worker = new Worker({
    marks: new Marks(),
    entered() {},
    engine: {
      claims: async ({ delivery, policy, termsOf }) =>
        new MemoryClaims(spool, {
          ...{ ...CLAIMS_DEFAULTS, frequencyMs: 50, delivery, policy, termsOf },
          ...claimsOptions,
        }),
    },
    send(message, sent) {
      messages.push(message)
      setImmediate(() => {
        if (message.type === 'reports')
          take(JSON.parse(JSON.stringify(message))) // as the channel would deliver it
        else if (LEAVING.has(message.type)) room = 0
        sent()
      })
    },
    exit(code) {
      exitCode = code
    },
  })

  function take(message: Extract<WorkerMessage, { type: 'reports' }>): void {
    eachOf(message.done, number => {
      const { ref = '', name } = given[number] ?? {}
      reports.push({ ref, name, kind: 'ok', ranMs: 0 })
      feed.report({ done: [ref] })
    })
    eachReport(
      message,
      number => given[number],
      (number, report) => {
        reports.push({ ...report, name: given[number]?.name })
        feed.report({ returned: [report] })
      },
    )
    dispatch()
  }

  function dispatch(): void {
    const refs = feed.take(room - feed.state.busy)
    if (refs.length === 0) return
    const numbers = [given.length, refs.length]
    given.push(...refs.map(ref => ({ ref, name: spool.tasks.get(ref)?.name, notice: undefined })))
    worker.hear({ type: 'run', numbers, refs })
  }

  worker.hear({
    type: 'open',
    options: {
      spool: directory,
      ordered: true,
      strictNames: false,
      frequencyMs: 50,
      locks: 'ofd',
      memory: { rssBytes: 0, vszBytes: 0, minAgeMs: 0 },
      policy: CLAIMS_DEFAULTS.policy,
      delivery: 'at-least-once',
      graceMs: 0,
      chain: [{ kind: 'javascript', file }],
      targets: [],
      queues: [],
      concurrency: 1,
      maxTasks: 0,
      signalAsTask: false,
      harakiriMs: 0,
      startTimeoutMs: 0,
      chdir: null,
      title: null,
      isListenedTo: false,
      isDetailed: false,
      hide: [],
      ...options,
    },
  })
  await until('the worker is ready', () => messages.some(({ type }) => type === 'ready'))

  return {
    worker,
    spool,
    feed,
    journal,
    reports,
    messages,
    hold: held,
    exitCode: () => exitCode,
    put: (vars: Record<string, string>, taskOptions: TaskOptions = {}) =>
      enqueuer.store(requestFrom(vars, taskOptions)),
    /** From now on, gives the worker due tasks, at most `atOnce` at a time. */
    async run(atOnce = 128): Promise<void> {
      room = atOnce
      await feed.open(dispatch)
    },
    /** Asks the worker to exit, and gives it no more tasks. */
    drain(): void {
      room = 0
      worker.drain(60_000)
    },
    order: () => journal.map(({ n }) => n),
    kindOf: (n: string) => {
      return reports.filter(({ name }) => name === `task-${n}`).map(({ kind }) => kind)
    },
  }
}
