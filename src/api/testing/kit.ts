import { counted } from '../../base/counted.js'
import { describe, SpooldError } from '../../base/errors.js'
import type { Request, Stored } from '../../base/task/request.js'
import { parseDuration } from '../../base/time-text.js'
import type { Enqueuer, StoreResult } from '../../engines/enqueuer.js'
import { MemoryEnqueuer } from '../../engines/memory/enqueuer.js'
import { MemorySpool, type MemoryTask } from '../../engines/memory/spool.js'
import { hasRegistry, REGISTRY, type Registry } from '../../runtime/tasks/registry.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'
import { placeOfCallOf } from '../tasks/place.js'
import type { Scheduler } from '../tasks/scheduler.js'
import { notTasks, type TaskScheduler } from '../tasks/tasks.js'
import { assertNone, assertScheduled, type Expected } from './assertions.js'
import { type EndedRun, TestRunner } from './runner.js'

/** `Tasks`, or a `Spoold` application, which has all tasks of its own. */
export type KitTasks = TaskScheduler

export interface DrainOptions {
  /** If true, moves the clock on to tasks that wait for their time, until none is left. Default: false. */
  readonly future?: boolean
  /** The most runs. One more is an error, because a task may schedule itself without end. Default: 10,000. */
  readonly maxRuns?: number
}

/** A task: its name, the task itself, or its function. */
type TaskOf<Args extends readonly unknown[]> = string | Scheduler<Args> | ((...args: Args) => unknown)

const MAX_RUNS = 10_000

/**
 * Replaces the spools of these tasks by a list in memory: what is scheduled is collected, and nothing runs until `drain`.
 *
 * @throws SpooldError TASK_INVALID if one of them has a test kit already
 */
export function fake(...tasks: readonly KitTasks[]): TestKit {
  return new TestKit(tasks, false, placeOfCallOf(fake))
}

/**
 * Replaces the spools of these tasks: what is scheduled runs at once. `schedule` resolves after the run, and rejects with what
 * the task throws. A task with a later time is collected, and waits for `drain`.
 *
 * @throws SpooldError TASK_INVALID if one of them has a test kit already
 */
export function inline(...tasks: readonly KitTasks[]): TestKit {
  return new TestKit(tasks, true, placeOfCallOf(inline))
}

/** Stands in for all spools of its tasks, until `restore`. */
export class TestKit {
  readonly #spool = new MemorySpool('test')
  readonly #clock = new TestClock()
  readonly #registries: readonly Registry[]
  readonly #runner: TestRunner
  #scheduled: ScheduledTask[] = []
  #failed: EndedRun[] = []

  /** @internal */
  constructor(tasks: readonly KitTasks[], isInline: boolean, place: string) {
    this.#registries = tasks.map(each => {
      if (hasRegistry(each)) return each[REGISTRY]
      throw notTasks(place, each)
    })
    const collecting = new MemoryEnqueuer(this.#spool)
    const enqueuer: Enqueuer = isInline
      ? new InlineEnqueuer(collecting, this.#spool, task => this.#run(task))
      : collecting
    this.#runner = new TestRunner(this.#spool, this.#registries, () => enqueuer)
    for (const registry of this.#registries) registry.setStandIn(enqueuer, place)
    this.#spool.watch(task => this.#scheduled.push(this.#runner.view(task)))
  }

  /**
   * The scheduled tasks in order, each as it was when it was scheduled, whether it has run since or not.
   *
   * @param task only tasks of this name. Default: all
   */
  scheduled<Args extends readonly unknown[]>(task?: TaskOf<Args>): readonly ScheduledTask[] {
    return this.#of(task, this.#scheduled)
  }

  /** The tasks that have not ended: they wait for `drain`, or for their time. */
  waiting<Args extends readonly unknown[]>(task?: TaskOf<Args>): readonly ScheduledTask[] {
    return this.#of(
      task,
      Array.from(this.#spool.tasks.values(), each => this.#runner.view(each)),
    )
  }

  /** The last runs of tasks that failed and do not run again. */
  failed<Args extends readonly unknown[]>(task?: TaskOf<Args>): readonly EndedRun[] {
    const name = this.#nameOf(task)
    return this.#failed.filter(run => name === undefined || run.task.name === name)
  }

  /**
   * Throws unless the task was scheduled.
   *
   * @param args the arguments as the task gets them; absent: any
   * @param expected how often, when and to which queue; absent: at least once
   * @throws AssertionError with a diff
   */
  assertScheduled<Args extends readonly unknown[]>(
    task: TaskOf<Args>,
    args?: readonly [...Args],
    expected: Expected = {},
  ): void {
    assertScheduled(this.#scheduled, this.#nameOf(task) ?? '', args, expected, this.assertScheduled)
  }

  /** Throws if the task was scheduled. @throws AssertionError */
  assertNotScheduled<Args extends readonly unknown[]>(task: TaskOf<Args>): void {
    assertNone(this.scheduled(task), `no ${this.#nameOf(task)}`, this.assertNotScheduled)
  }

  /** Throws if any task was scheduled. @throws AssertionError */
  assertNothingScheduled(): void {
    assertNone(this.#scheduled, 'that nothing was scheduled', this.assertNothingScheduled)
  }

  /**
   * Runs the due tasks one after the other, including those that they schedule.
   *
   * @returns the runs, in order
   * @throws Error after `maxRuns` runs
   */
  async drain({ future = false, maxRuns = MAX_RUNS }: DrainOptions = {}): Promise<readonly EndedRun[]> {
    const runs: EndedRun[] = []
    const unknown = new Set<MemoryTask>()
    for (;;) {
      const next = firstOf(this.#spool, unknown)
      if (next === undefined || (next.dueAtMs > Date.now() && !future)) return runs
      if (next.dueAtMs > Date.now()) this.travelTo(new Date(next.dueAtMs))
      if (runs.length >= maxRuns) throw tooManyRuns(maxRuns, this.#runner.view(next).name)
      const run = await this.#run(next)
      if (run === undefined) unknown.add(next)
      else runs.push(run)
    }
  }

  /**
   * Moves `Date` for all code of this process, until `restore`, and on to the next whole second, because the times of tasks are
   * whole seconds. Timers do not move.
   *
   * @param duration seconds, or text such as `'10m'`
   * @throws SpooldError ARGUMENTS_INVALID if it is not a duration
   */
  advance(duration: number | string): void {
    const ms = typeof duration === 'number' ? duration * 1000 : parseDuration(duration)
    if (ms === undefined || !Number.isFinite(ms))
      throw new SpooldError(
        'ARGUMENTS_INVALID',
        `advance: expected seconds, or text such as '10m', got ${describe(duration)}`,
      )
    const now = Date.now()
    this.#clock.move(Math.ceil((now + ms) / 1000) * 1000 - now)
  }

  /** Moves the clock to this time, as `advance` does. */
  travelTo(at: Date): void {
    this.advance((at.getTime() - Date.now()) / 1000)
  }

  /** Forgets all tasks: those that were scheduled, wait or failed. The clock stays where it is. */
  clear(): void {
    this.#scheduled = []
    this.#failed = []
    this.#spool.tasks.clear()
    this.#spool.dead.clear()
    this.#spool.ids.clear()
  }

  /** Ends the kit: tasks go to their spools again, and the clock is right. */
  restore(): void {
    for (const registry of this.#registries) registry.setStandIn(undefined, '')
    this.#clock.restore()
  }

  [Symbol.dispose](): void {
    this.restore()
  }

  async #run(task: MemoryTask): Promise<EndedRun | undefined> {
    const run = await this.#runner.run(task)
    if (run?.outcome === 'failed') this.#failed.push(run)
    return run
  }

  #of(task: unknown, all: readonly ScheduledTask[]): readonly ScheduledTask[] {
    const name = this.#nameOf(task)
    return all.filter(each => name === undefined || each.name === name)
  }

  #nameOf(task: unknown): string | undefined {
    if (task === undefined || typeof task === 'string') return task
    for (const registry of this.#registries) {
      const entry = registry.find(task)
      if (entry !== undefined) return entry.name
    }
    throw new SpooldError('TASK_UNKNOWN', `expected a task of this kit, got ${describe(task)}`)
  }
}

function firstOf({ tasks }: MemorySpool, without: ReadonlySet<MemoryTask>): MemoryTask | undefined {
  let first: MemoryTask | undefined
  for (const task of tasks.values())
    if (!without.has(task) && (first === undefined || task.dueAtMs < first.dueAtMs)) first = task
  return first
}

function tooManyRuns(maxRuns: number, name: string): Error {
  return new Error(
    `drain: ${counted(maxRuns, 'run')}, and ${name} still waits; does a task schedule itself, or fail for ever? (maxRuns)`,
  )
}

/** Stores a task and runs it, before the caller learns that the task is stored. */
class InlineEnqueuer implements Enqueuer {
  readonly #inner: MemoryEnqueuer
  readonly #spool: MemorySpool
  readonly #run: (task: MemoryTask) => Promise<EndedRun | undefined>

  constructor(
    inner: MemoryEnqueuer,
    spool: MemorySpool,
    run: (task: MemoryTask) => Promise<EndedRun | undefined>,
  ) {
    this.#inner = inner
    this.#spool = spool
    this.#run = run
  }

  get name(): string {
    return this.#inner.name
  }

  /** @throws what the task throws */
  async store(request: Request): Promise<Stored> {
    const stored = await this.#inner.store(request)
    await this.#runStored(stored)
    return stored
  }

  async storeAll(requests: readonly Request[], isAllOrNothing?: boolean): Promise<readonly StoreResult[]> {
    const results = await this.#inner.storeAll(requests, isAllOrNothing)
    for (const result of results) if ('stored' in result) await this.#runStored(result.stored)
    return results
  }

  async #runStored({ path, isDuplicate }: Stored): Promise<void> {
    const task = this.#spool.tasks.get(path.slice(this.#spool.name.length + 1))
    if (task === undefined || isDuplicate) return
    const run = await this.#run(task)
    if (run?.error !== undefined) throw run.error
  }
}

/** Moves `Date` for all code of this process, on top of a `Date` that a test framework has installed. Timers are left alone. */
class TestClock {
  #before: DateConstructor | undefined
  #own: DateConstructor | undefined
  #movedMs = 0

  move(ms: number): void {
    this.#install()
    this.#movedMs += ms
  }

  restore(): void {
    if (this.#before !== undefined && globalThis.Date === this.#own) globalThis.Date = this.#before
    this.#before = undefined
    this.#movedMs = 0
  }

  #install(): void {
    if (this.#before !== undefined) return
    const before = globalThis.Date
    const now = () => before.now() + this.#movedMs
    this.#before = before
    this.#own = new Proxy(before, {
      get: (target, key) => (key === 'now' ? now : Reflect.get(target, key)),
      apply: () => new before(now()).toString(),
      construct: (target, args, newTarget) =>
        Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
    })
    globalThis.Date = this.#own
  }
}
