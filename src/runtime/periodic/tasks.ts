import { messageOf } from '../../base/errors.js'
import {
  isSameRhythm,
  type PeriodicEntry,
  type PeriodicState,
  type PeriodicStates,
  type PeriodicTask,
} from '../../base/task/schedule.js'
import { entryFrom, isAstray, isMissed, leftMs, type Moment } from './times.js'

export interface PeriodicTasksOptions {
  readonly states: PeriodicStates
  now(): Moment
  /** True if people have paused the task: its times pass, and nothing is stored. @throws why that is unknown */
  isPaused(task: PeriodicTask): boolean | Promise<boolean>
  /** Stores a run of the task. @param name from `newTask` */
  store(task: PeriodicTask, name: string): Promise<void>
  /** Called when the time of the task has come, but its last run, `stored`, has not ended. Called once for each `stored`. */
  leftOut(task: PeriodicTask, stored: string): void
  /** Called when the entry of the task is damaged, so that the task starts over. */
  damaged(task: PeriodicTask): void
  /** Called when something cannot be read, written or stored, and again only when the error changes. */
  failed(error: string): void
}

/** An entry whose time passed longer ago than this, in ms, is of no living daemon, because that would have acted. */
const ABANDONED_MS = 60_000
/** The longest sleep before a cron time, in ms, because the clock may be set meanwhile. */
const LONGEST_SLEEP_MS = 10_000
/** The delay, in ms, before the next look after another daemon was faster. */
const LOOK_AGAIN_MS = 50
const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 60_000

/** If writing an entry takes longer than this, in ms, this process may have been suspended, and the entry is written again. */
const SUSPENDED_MS = 1000
/** The most attempts to write an entry in time, because a disk may always be that slow. */
const MOST_CLAIMS = 3

/** A run that this daemon has to store, because no other daemon will. */
interface Owed {
  /** The name of the task to be stored. */
  readonly stored: string
  readonly version: number
}

/**
 * The periodic tasks of one spool, as one of its daemons knows them. A daemon that finds a task due first replaces the entry of
 * the task, which then has the name of the new run, and after that stores the run. So only one of several daemons stores it. A
 * daemon that dies in between misses a run, but never doubles one. Whether a run has ended is known whenever its daemon dies.
 * There is no timer here: `look` returns when to look again.
 */
export class PeriodicTasks {
  readonly #options: PeriodicTasksOptions
  #tasks = new Map<string, PeriodicTask>()
  /** The names of tasks that are new here, or have a new rhythm. If their entry has another rhythm, they start over at once. */
  readonly #fresh = new Set<string>()
  readonly #owed = new Map<string, Owed>()
  /** The entries that were read or written last, by the name of the task. */
  #entries = new Map<string, PeriodicEntry>()
  #setAtMs = Number.NEGATIVE_INFINITY
  readonly #leftOut = new Map<string, string>()
  #retries = 0
  #reported: string | undefined

  constructor(options: PeriodicTasksOptions) {
    this.#options = options
  }

  /** Replaces the tasks. Tasks that keep their rhythm keep their times. */
  set(tasks: readonly PeriodicTask[]): void {
    const before = this.#tasks
    this.#tasks = new Map(tasks.map(task => [task.name, task]))
    for (const { name, when } of tasks) {
      const known = before.get(name)
      if (known === undefined || !isSameRhythm(known.when, when)) this.#fresh.add(name)
    }
    for (const name of this.#owed.keys()) if (!this.#tasks.has(name)) this.#owed.delete(name)
    this.#setAtMs = this.#options.now().machineMs
  }

  /** Returns each task and when it is scheduled next, epoch ms; null: not known yet. */
  get plan(): Array<{ readonly task: PeriodicTask; readonly nextAtMs: number | null }> {
    const now = this.#options.now()
    return [...this.#tasks.values()].map(task => {
      const entry = this.#entryOf(task)
      return { task, nextAtMs: entry === undefined ? null : Math.round(now.epochMs + leftMs(entry, now)) }
    })
  }

  /**
   * Does what is due. One call at a time.
   *
   * @param givenUp fires when nothing more is to be begun
   * @returns after how many ms to look again; infinite: not before `set`
   */
  async look(givenUp?: AbortSignal): Promise<number> {
    const failures = new Map<string, string>()
    const attempt = async (name: string, act: () => Promise<void> | void) => {
      try {
        await act()
      } catch (error) {
        failures.set(name, messageOf(error))
      }
    }
    const { states } = this.#options
    let found: ReadonlyMap<string, PeriodicState> = new Map()
    await attempt('', async () => {
      found = await states.read(givenUp)
      this.#entries = new Map(
        [...found.values()].flatMap(({ entry }) => (entry ? [[entry.name, entry]] : [])),
      )
    })
    if (!failures.has(''))
      for (const task of this.#tasks.values())
        await attempt(task.name, () => this.#tend(task, found.get(states.keyOf(task.name))))
    for (const [key, { entry, version }] of found)
      if (entry !== undefined && !this.#tasks.has(entry.name))
        await attempt(entry.name, () => this.#forgetAbandoned(key, entry, version))
    if (givenUp?.aborted !== true) this.#report(failures)
    if (failures.has('')) return this.#retryMs
    return Math.min(this.#untilNext(failures), failures.size === 0 ? Number.POSITIVE_INFINITY : this.#retryMs)
  }

  async #tend(task: PeriodicTask, state: PeriodicState | undefined): Promise<void> {
    const now = this.#options.now()
    const entry = state?.entry
    const version = state?.version ?? 0
    if (state !== undefined && entry === undefined) this.#options.damaged(task)
    const startOver = async () => {
      await this.#advance({ ...entryFrom(task, now), ...runOf(entry) }, version)
    }
    if (entry === undefined) return startOver()
    if (!isSameRhythm(entry.when, task.when)) {
      const isOurs = this.#fresh.has(task.name) || this.#isAbandoned(entry, now)
      return isOurs ? startOver() : undefined
    }
    this.#fresh.delete(task.name)
    if (this.#owed.get(task.name)?.version !== version) this.#owed.delete(task.name)
    if (isAstray(entry, now)) return startOver()
    if (leftMs(entry, now) > 0) return this.#deliver(task)
    if (await this.#options.isPaused(task)) return startOver()
    if (isMissed(entry, now) && task.missed === 'skip') return startOver()
    if (await this.#isLeftOut(task, entry)) return startOver()
    await this.#claim(task, version)
    await this.#deliver(task)
  }

  /**
   * Takes the coming run for this daemon, by replacing the entry of the task. If this process was suspended meanwhile, the times
   * that it has written may have passed by now, and other daemons may act on them. So it replaces the entry again.
   */
  async #claim(task: PeriodicTask, from: number): Promise<void> {
    for (let version = from; version < from + MOST_CLAIMS; version++) {
      const now = this.#options.now()
      const stored = this.#options.states.newTask()
      const entry = { ...entryFrom(task, now), task: stored }
      const isOurs = await this.#advance(entry, version)
      this.#owed.delete(task.name)
      if (!isOurs) return
      this.#owed.set(task.name, { stored, version: version + 1 })
      if (this.#options.now().machineMs < now.machineMs + SUSPENDED_MS) return
    }
  }

  /** Replaces an entry. @returns false if another daemon was faster */
  async #advance(entry: PeriodicEntry, from: number): Promise<boolean> {
    this.#entries.delete(entry.name)
    if (!(await this.#options.states.advance(entry, from, true))) return false
    this.#fresh.delete(entry.name)
    this.#entries.set(entry.name, entry)
    return true
  }

  /** Stores the run that this daemon owes, also if it could not be stored before. There is at most one per task. */
  async #deliver(task: PeriodicTask): Promise<void> {
    const owed = this.#owed.get(task.name)
    if (owed === undefined) return
    const { stored, version } = owed
    await this.#options.store(task, stored)
    this.#owed.delete(task.name)
    if (!('everyMs' in task.when)) return
    // the period begins only now, because storing may have taken long, or this process may have been suspended
    await this.#options.states.advance(
      { ...entryFrom(task, this.#options.now()), task: stored },
      version,
      false,
    )
  }

  async #isLeftOut(task: PeriodicTask, { task: stored }: PeriodicEntry): Promise<boolean> {
    if (stored === undefined) return false
    const fate = await this.#options.states.fateOf(stored)
    if (fate === 'gone' || (task.overlap && fate === 'begun')) return false
    if (this.#leftOut.get(task.name) !== stored) this.#options.leftOut(task, stored)
    this.#leftOut.set(task.name, stored)
    return true
  }

  async #forgetAbandoned(key: string, entry: PeriodicEntry, version: number): Promise<void> {
    if (!this.#isAbandoned(entry, this.#options.now())) return
    await this.#options.states.forget(key, version)
    this.#entries.delete(entry.name)
  }

  /** True if no daemon that knows the task with this rhythm is left: its time has come, and nothing has happened. */
  #isAbandoned(entry: PeriodicEntry, now: Moment): boolean {
    return leftMs(entry, now) <= -ABANDONED_MS && now.machineMs >= this.#setAtMs + ABANDONED_MS
  }

  /** Returns the entry of a task, unless another daemon has given the entry another rhythm. */
  #entryOf({ name, when }: PeriodicTask): PeriodicEntry | undefined {
    const entry = this.#entries.get(name)
    return entry !== undefined && isSameRhythm(entry.when, when) ? entry : undefined
  }

  #untilNext(failed: ReadonlyMap<string, string>): number {
    const now = this.#options.now()
    const own = [...this.#tasks.values()].map(task => {
      const entry = this.#entryOf(task)
      if (failed.has(task.name)) return Number.POSITIVE_INFINITY
      if (entry === undefined) return this.#entries.has(task.name) ? Number.POSITIVE_INFINITY : LOOK_AGAIN_MS
      const longest = 'everyMs' in task.when ? Number.POSITIVE_INFINITY : LONGEST_SLEEP_MS
      return Math.min(longest, Math.max(0, leftMs(entry, now)))
    })
    const others = [...this.#entries.values()].map(entry => {
      const task = this.#tasks.get(entry.name)
      if (task !== undefined && isSameRhythm(task.when, entry.when)) return Number.POSITIVE_INFINITY
      return ABANDONED_MS + Math.max(leftMs(entry, now), this.#setAtMs - now.machineMs)
    })
    return Math.min(...own, ...others.map(ms => Math.max(ms, LOOK_AGAIN_MS)), Number.POSITIVE_INFINITY)
  }

  #report(failures: ReadonlyMap<string, string>): void {
    const [error] = failures.values()
    this.#retries = error === undefined ? 0 : this.#retries + 1
    if (error !== undefined && error !== this.#reported) this.#options.failed(error)
    this.#reported = error
  }

  get #retryMs(): number {
    return Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.#retries - 1, 10))
  }
}

/** Returns the part of an entry that stays when its times start over. */
function runOf(entry: PeriodicEntry | undefined): Pick<PeriodicEntry, 'task'> {
  return entry?.task === undefined ? {} : { task: entry.task }
}
