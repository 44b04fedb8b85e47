import { fromThrown } from '../../base/task/answer.js'
import { OK, type Outcome } from '../../base/task/outcome.js'
import { displayName } from '../../base/task/ref.js'
import type { ReportKind } from '../../base/task/report.js'
import type { TermsOrPark } from '../../base/task/terms.js'
import type { Claim } from '../../engines/claims.js'
import { MemoryClaims } from '../../engines/memory/claims.js'
import type { MemorySpool, MemoryTask } from '../../engines/memory/spool.js'
import { taskNameOf } from '../../formats/protocol/named.js'
import type { Vars } from '../../formats/protocol/vars.js'
import { argumentsIn, claimedTask } from '../../runtime/tasks/claimed-task.js'
import type { CurrentDaemon } from '../../runtime/tasks/daemon.js'
import { performerOf } from '../../runtime/tasks/perform.js'
import { fullNameOf, type Registry, settingsOf, type TaskEntry } from '../../runtime/tasks/registry.js'
import { freezeTask, type ScheduledTask, TaskStatus } from '../../runtime/tasks/scheduled-task.js'
import { termsOf } from '../../runtime/tasks/settings.js'
import { runningAs } from '../tasks/running-as.js'

/** One run of a task. */
export interface EndedRun {
  /** The task as it is after the run. */
  readonly task: ScheduledTask
  /** `retried`: the run failed, and the task waits for its next run; `failed`: the task does not run again. */
  readonly outcome: 'succeeded' | 'retried' | 'failed'
  /** What the task threw. */
  readonly error?: unknown
}

/** The default options of a daemon (docs/options.md). */
const DEFAULTS = {
  policy: { maxAttempts: 0, maxCrashes: 3, backoff: 'fixed', delayMs: null, capMs: 1_200_000 },
  delivery: 'at-least-once',
  frequencyMs: 30_000,
} as const

/** Runs the tasks of a kit as a worker does: claims, begins and settles them, with their limits, delays and middleware. */
export class TestRunner {
  readonly #registries: readonly Registry[]
  readonly #enqueuerOf: CurrentDaemon['enqueuerOf']
  readonly #claims: MemoryClaims

  constructor(spool: MemorySpool, registries: readonly Registry[], enqueuerOf: CurrentDaemon['enqueuerOf']) {
    this.#registries = registries
    this.#enqueuerOf = enqueuerOf
    this.#claims = new MemoryClaims(spool, { ...DEFAULTS, termsOf: vars => this.#termsOf(vars) })
  }

  /** @returns undefined if the task is not due, or if no registry knows its name */
  async run(task: MemoryTask): Promise<EndedRun | undefined> {
    const claim = await this.#claims.claim(task.name)
    if ('kind' in claim || (await this.#claims.begin(claim, 'alone')) !== undefined) return undefined
    const { outcome, error } = await this.#perform(claim)
    const before = claimedTask(claim, TaskStatus.RUNNING)
    const { kind } = await this.#claims.settle(claim, outcome, 0)
    return endedRun(before, kind, task.dueAtMs, error)
  }

  /** Returns the task as it is now. */
  view(task: MemoryTask): ScheduledTask {
    const { name, vars, dueAtMs, attempts } = task
    const terms = this.#termsOf(vars)
    const claim = {
      ...{ name, vars, dueAtMs, attempt: attempts + 1 },
      terms: typeof terms === 'object' ? terms : undefined,
      readBody: () => task.body,
    }
    return claimedTask(claim, dueAtMs > Date.now() ? TaskStatus.WAITING : TaskStatus.QUEUED)
  }

  async #perform(claim: Claim): Promise<{ readonly outcome: Outcome; readonly error?: unknown }> {
    const entry = this.#entryOf(claim.vars)
    if (entry === undefined) return { outcome: { kind: 'ignore' } }
    const { signal } = new AbortController()
    const running = claimedTask(claim, TaskStatus.RUNNING)
    const task = Object.freeze({ ...running, fencingToken: undefined, signal, log: () => {} })
    const daemon: CurrentDaemon = { enqueuerOf: this.#enqueuerOf, current: () => task }
    try {
      await runningAs(daemon, async () => performerOf(entry)(argumentsIn(claim)))
      return { outcome: OK }
    } catch (error) {
      return { outcome: fromThrown(error), error }
    }
  }

  #termsOf(vars: Vars): TermsOrPark {
    const entry = this.#entryOf(vars)
    return entry === undefined ? 'unknown-name' : termsOf(fullNameOf(entry), settingsOf(entry))
  }

  #entryOf(vars: Vars): TaskEntry | undefined {
    const name = displayName(taskNameOf(vars) ?? '')
    for (const registry of this.#registries) {
      const entry = registry.named(name)
      if (entry !== undefined) return entry
    }
    return undefined
  }
}

function endedRun(task: ScheduledTask, kind: ReportKind, dueAtMs: number, error: unknown): EndedRun {
  if (kind === 'ok')
    return { task: freezeTask({ ...task, status: TaskStatus.SUCCEEDED }), outcome: 'succeeded' }
  const hasEnded = kind === 'buried'
  const after = {
    ...task,
    status: hasEnded ? TaskStatus.FAILED : TaskStatus.WAITING,
    retries: task.retries + 1,
    ...(hasEnded ? {} : { at: new Date(dueAtMs) }),
  }
  return { task: freezeTask(after), outcome: hasEnded ? 'failed' : 'retried', error }
}
