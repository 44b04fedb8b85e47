import { Alarm, STEP_MS, STOPPED_MS, Stall, withDeadline } from '../../base/clock.js'
import type { RespawnPace } from '../../base/respawn-pace.js'
import type { Ref } from '../../base/task/ref.js'
import { type Found, isHandled, type Report } from '../../base/task/report.js'
import type { SlotWish } from '../../base/task/terms.js'
import { clearMarks } from './aside.js'
import type { Cancellations } from './cancellations.js'
import type { CrashedTasks } from './crashed-tasks.js'
import { type Excused, lastRunOf } from './cut-short.js'
import { dispatch } from './dispatcher.js'
import type { Given } from './given-tasks.js'
import type { Halt } from './halt.js'
import type { PoolContext } from './pool-options.js'
import { Roster, type RosterOptions } from './roster.js'
import type { SignalRouter } from './signal-router.js'
import type { Exit, Reported } from './worker-port.js'
import type { HowGiven, WorkerProcess } from './worker-process.js'

export interface FeederContext extends PoolContext {
  readonly signals: SignalRouter
  readonly crashed: CrashedTasks
  readonly pace: RespawnPace
  readonly cancellations: Cancellations
  readonly halt: Halt
  /** True if the pool's workers run one task at a time: then tasks that have crashed run there; otherwise they run alone. */
  readonly isSequential: boolean
  /** The worker is ready. */
  joined(worker: WorkerProcess): void
  /** There may be fewer workers than the target. */
  vacant(): void
  /** `count` more tasks have ended. */
  progressed(count: number): void
}

/** A worker that does not answer a recall within this time runs something slow. */
const SILENT_MS = 100
/** A worker's death is reported after this time at the latest, even if the look at its files has not ended. */
const LOOK_MS = 2000
/** A worker that sent nothing for this long, or whose oldest task is this old, is running something slow. */
const SLOW_MS = 50

/** Workers with a common source of tasks: gives them tasks, takes tasks back, and enforces deadlines. */
export class Feeder {
  readonly roster: Roster
  readonly #pool: FeederContext
  readonly #isAlone: boolean
  /** If this process itself was stopped, the alarm fires before the workers' messages are read, so the check waits until they are. */
  readonly #alarm = new Alarm(lateMs => {
    const dueAt = performance.now() - lateMs
    setImmediate(() => this.#check(performance.now() - dueAt)) // measured anew: the process may have been stopped again
  })
  readonly #stall = new Stall()
  /** The number of refs that were ever given out. */
  #given = 0
  /** Work on the files of tasks whose worker has ended; other workers get these tasks when it is done. */
  readonly #settling = new Set<Promise<void>>()
  readonly #renewal: NodeJS.Timeout | undefined

  /**
   * @param isAlone true: its workers run the tasks that must run alone; false: they run all other due tasks. If several tasks were
   *   running when their process died, any of them may be to blame: they become suspects, and no crash is counted. A suspect runs
   *   alone, so if it crashes again, it takes no other task with it
   */
  constructor(options: RosterOptions, pool: FeederContext, isAlone = false) {
    const { feed, events, signals, pace } = pool
    this.#pool = pool
    this.#isAlone = isAlone
    this.roster = new Roster(
      options,
      {
        areLeased: feed.leases !== undefined,
        opened: () => pool.dispatch(),
        signalled: (worker, message) => signals.hear(worker, message),
        reported: (worker, reported) => this.#reported(worker, reported),
        claimed: refs => feed.report({ claimed: refs }),
        recalled: (worker, begun) => this.#recalled(worker, begun),
        deadline: () => this.#watch(),
        joined: worker => {
          if (!isAlone) signals.declared(worker.spool, worker.news, worker)
          pool.joined(worker)
        },
        exited: (worker, exit, mayBeReplaced) => this.#exited(worker, exit, mayBeReplaced),
        vacant: () => pool.vacant(),
      },
      pace,
      events,
    )
    const { leases } = feed
    if (leases !== undefined)
      this.#renewal = setInterval(() => {
        leases.keep([...this.roster.workers].flatMap(worker => worker.work.tasks.leases))
      }, leases.everyMs).unref()
  }

  /** Gives ready tasks to workers with room. Call it when there may be new tasks or new room. */
  dispatch(): void {
    const { roster } = this
    const { feed, signals, isHalted } = this.#pool
    const { crashed } = this
    if (roster.isClosed) return
    if (!isHalted) {
      if (crashed?.isOverdue === true) this.#giveCrashed(crashed)
      dispatch(roster.workers, {
        signalFor: worker => signals.take(worker),
        ready: this.ready,
        batchMs: feed.leases?.batchMs,
        isByArrival: feed.isByArrival === true,
        isShrinking: roster.excess > 0,
        due: limit => feed.take(limit, this.#isAlone ? 'alone' : undefined),
        give: (worker, refs) => this.#give(worker, refs),
      })
      if (crashed?.isReady === true) this.#giveCrashed(crashed)
    }
    this.#watch()
  }

  /** The number of tasks that could be given out now. It may be an estimate. */
  get ready(): number {
    const { parked, ready } = this.#pool.feed.state
    return this.#isAlone ? parked.alone : ready
  }

  /** The tasks that have crashed, if these workers are to run them. */
  get crashed(): CrashedTasks | undefined {
    const { isSequential, crashed } = this.#pool
    return isSequential === this.#isAlone ? undefined : crashed
  }

  #give(worker: WorkerProcess, refs: readonly Ref[], how?: HowGiven): void {
    const { feed, lastRuns } = this.#pool
    this.#given += refs.length
    worker.run(refs, lastRuns.among(refs), feed.state.slots, how)
  }

  /** Gives tasks that have crashed to idle workers. */
  #giveCrashed(crashed: CrashedTasks): void {
    for (const worker of this.roster.workers) {
      if (!worker.isIdle) continue
      const ref = crashed.takeFor(worker)
      if (ref === undefined) return
      this.#give(worker, [ref], { isTheirTurn: true })
    }
  }

  /** Withdraws what the workers have not started; otherwise they would start it whenever they get to it. */
  takeBack(): void {
    for (const worker of this.roster.workers)
      if (worker.isOpen && worker.work.outstanding > 0) this.#withdraw(worker)
  }

  /**
   * Takes back the tasks that a worker has not begun, for other workers. A silent worker may have run some of them, and may be
   * running one. A worker that is given such a task finds that out. The tasks that no worker is given are looked at aside, because
   * people and algorithms count what is due.
   */
  #withdraw(worker: WorkerProcess): void {
    const { feed } = this.#pool
    const refs = worker.recall()
    feed.lose({ refs })
    if (feed.leases !== undefined) return // such a ref does not say where to look
    setTimeout(() => void this.#lookAt(worker), SILENT_MS).unref()
  }

  async #lookAt(worker: WorkerProcess): Promise<void> {
    const { feed, looker } = this.#pool
    const unclear = isSilent(worker) ? worker.work.tasks.unclear : []
    if (unclear.length === 0 || looker === undefined) return
    const refs = unclear.map(({ ref }) => ref)
    const found = await looker.look(refs)
    if (found === undefined || !isSilent(worker)) return
    // a task that another worker has by now is locked by that worker, or gone because it ran there
    const its = new Map(unclear.map((given, i) => [given, found[i] ?? 'due'] as const))
    const others = this.#refsOfOthers(worker)
    for (const given of unclear) if (given.isRecalled && others.has(given.ref)) its.delete(given)
    const looked = worker.work.tasks.looked(its)
    worker.work.noteActivity()
    if (looked === undefined) return
    const reports = refs.flatMap((ref, i) => reportOf(ref, found[i]))
    feed.lose({ refs: looked.freed })
    feed.report({ found: { begun: looked.begun, reports } })
    this.#pool.dispatch()
  }

  /** Takes in the answer to a recall: what the worker had begun is its own again, unless another worker has it by now. */
  #recalled(worker: WorkerProcess, begun: readonly number[]): void {
    const { feed } = this.#pool
    const others = this.#refsOfOthers(worker)
    const isFree = (ref: Ref) => feed.leases === undefined && !others.has(ref) // a ref that stands for any task cannot be kept
    const { kept, dropped } = worker.work.recalled(begun, isFree)
    feed.lose({ refs: dropped })
    if (kept.length > 0) feed.report({ found: { begun: kept, reports: [] } })
  }

  #refsOfOthers(worker: WorkerProcess): ReadonlySet<Ref> {
    const others = this.#pool.allWorkers.filter(each => each !== worker)
    return new Set(others.flatMap(({ work }) => work.tasks.left))
  }

  /** For how long nothing was given out although tasks were due and a worker was idle, in milliseconds. */
  get stalledMs(): number {
    const { roster } = this
    const mayGive =
      !roster.isClosed &&
      !this.#pool.isHalted &&
      this.ready > 0 &&
      [...roster.workers].some(({ isIdle }) => isIdle)
    return this.#stall.look(mayGive ? this.#given : undefined)
  }

  #reported(worker: WorkerProcess, reported: Reported): void {
    const { done, doneNames, reports, late, known, wishes } = reported
    const { spool, feed, lastRuns, events, halt } = this.#pool
    const { pid } = worker
    this.crashed?.reported(worker, reports)
    const returned = reports.filter(report => !this.#isTakenBack(report))
    lastRuns.done(done)
    lastRuns.reported(returned)
    feed.report({ done, returned })
    this.#tellEnds(reported)
    halt.reported(returned)
    for (const wish of wishes) this.#follow(worker, wish)
    events.emit('tasks-reported', {
      spool,
      pid,
      done: doneNames,
      reports: late.length === 0 ? reports : [...reports, ...late],
      known,
    })
    const ended = done.length + reports.filter(hasEnded).length
    if (ended > 0) this.#pool.progressed(ended)
    this.#pool.dispatch()
  }

  /** Tells the workers from which the ended tasks were withdrawn, if they have not yet said what they did with them. */
  #tellEnds({ done, reports }: Reported): void {
    if (this.#pool.feed.leases !== undefined) return // such a ref stands for any task
    let ended: ReadonlySet<Ref> | undefined
    for (const { work } of this.#pool.allWorkers) {
      if (!work.tasks.hasRecalled) continue
      ended ??= new Set([...done, ...reports.filter(isOver).map(({ ref }) => ref)])
      work.tasks.endedElsewhere(ended)
    }
  }

  /** True if the first worker of a recalled task has begun it: the report or the end of that worker says what becomes of it. */
  #isTakenBack({ ref, kind }: Report): boolean {
    if (kind !== 'locked') return false
    for (const { work } of this.roster.workers) if (work.tasks.takeBack(ref)) return true
    return false
  }

  /** Gives a worker more tasks of a name that it runs: each begins as soon as one of the worker's slots is free. */
  #follow(worker: WorkerProcess, { wanted, name, count }: SlotWish): void {
    const { roster } = this
    const { feed, isHalted } = this.#pool
    if (this.#isAlone || roster.isClosed || roster.excess > 0 || isHalted || !worker.isOpen) return
    const refs = feed.take(wanted, { name, count })
    if (refs.length > 0) this.#give(worker, refs, { follow: name })
  }

  #exited(worker: WorkerProcess, exit: Exit, mayBeReplaced: boolean): void {
    const { feed, lastRuns, signals, cancellations } = this.#pool
    const buried = cancellations.exited(worker, exit)
    const all = worker.work.tasks.had
    const cut = all
      .filter(({ ref }) => !buried.has(ref))
      .map(given => ({
        given,
        lastRun: lastRunOf(given, worker.killed, exit, worker.isInnocent(given.number)),
      }))
    if (feed.leases === undefined) for (const { given, lastRun } of cut) lastRuns.add(given.ref, lastRun)
    else
      feed.lose({
        cutShort: cut.flatMap(({ given: { ref, lease }, lastRun }) =>
          lease === undefined ? [] : [{ ref, lastRun, lease }],
        ),
        worker: { identity: worker.identity, leases: all.flatMap(({ lease }) => lease ?? []) },
      })
    signals.exited(worker)
    // these files were seen to be gone, and the worker ended without reporting them
    const gone = worker.work.tasks.ended.map(({ ref }) => ({ ref, kind: 'gone', ranMs: 0 }) as const)
    this.#pool.tell(worker.pid, gone)
    const left = worker.work.tasks.left.filter(ref => !buried.has(ref))
    const excused = lastRuns.excused(cut.map(({ given }) => given))
    // killed from outside, even if the worker was asked to end, or about to
    const isByOthers = exit.signal !== null && worker.killed === undefined && all.length > 0
    const isDeath = exit.why === 'failed' || (isByOthers && exit.why !== 'faulted')
    const isTold = exit.unforked === undefined && (isDeath || worker.hasOverrun())
    const told = isTold ? this.#tellEnd(worker, exit, isDeath, mayBeReplaced) : undefined
    if (told === undefined && excused.length === 0) return feed.lose({ refs: left })
    const settled = Promise.resolve(told)
      .then(() => this.#unmark(worker, excused, left))
      .finally(() => {
        this.#settling.delete(settled)
        this.dispatch()
      })
    this.#settling.add(settled)
  }

  /**
   * Reports a worker's death. The files tell which tasks the worker had begun without saying so; they are looked at before other
   * workers begin these tasks.
   *
   * @returns resolves when the death is reported; undefined: it is
   */
  #tellEnd(
    worker: WorkerProcess,
    exit: Exit,
    isDeath: boolean,
    mayBeReplaced: boolean,
  ): Promise<void> | undefined {
    const { spool, feed, looker, events } = this.#pool
    const { pid, work } = worker
    const { code, signal, why } = exit
    const isReplaced = why === 'failed' && mayBeReplaced
    const tell = (begun: readonly Given[]) => {
      const running = begun.map(({ name }) => name)
      const overran = begun.filter(({ beganAt }) => worker.hasOverrun(beganAt)).map(({ name }) => name)
      const isOwn = worker.killed?.kind === 'own-deadline'
      if (overran.length > 0) events.emit('tasks-overran', { spool, pid, names: overran, isOwn })
      if (isDeath) events.emit('worker-died', { spool, pid, code, signal, running, isReplaced })
    }
    const { unclear } = work.tasks
    if (unclear.length === 0 || looker === undefined || feed.leases !== undefined)
      return void tell(work.tasks.begun)
    const refs = unclear.map(({ ref }) => ref)
    const sinceMs = Math.min(...unclear.map(({ givenAtMs }) => givenAtMs))
    const looked = looker.begun(refs, sinceMs)
    return withDeadline(looked, LOOK_MS, () => undefined).then(found => {
      if (found === undefined) return tell(work.tasks.begun)
      tell(
        unclear.filter(
          ({ number, isRecalled }, i) => isBegun(found[i], isRecalled) && !worker.isInnocent(number),
        ),
      )
    })
  }

  /** Clears the marks of excused tasks before others get them, because a daemon that ends before they have run remembers no excuse. */
  async #unmark({ pid }: WorkerProcess, excused: readonly Excused[], left: readonly Ref[]): Promise<void> {
    const { feed, lastRuns, events, aside, options } = this.#pool
    const cleared = await clearMarks(aside, options.worker, excused, events)
    const reports = cleared.filter(({ ref }) => left.includes(ref))
    const over = new Set(reports.map(({ ref }) => ref))
    if (over.size > 0) {
      lastRuns.reported(reports)
      feed.report({ returned: reports })
      this.#pool.tell(pid, reports)
    }
    feed.lose({ refs: left.filter(ref => !over.has(ref)) })
  }

  /** Call it when the workers have ended. Resolves when the marks of excused tasks are cleared and each death is reported. */
  async close(): Promise<void> {
    this.#alarm.clear()
    clearInterval(this.#renewal)
    await Promise.all(this.#settling)
  }

  /** Call it when a worker was given something, or a deadline has changed. */
  #watch(): void {
    const { harakiriMs } = this.roster.options.worker
    const now = performance.now()
    for (const worker of this.roster.workers) {
      if (worker.work.hasAhead) this.#alarm.wakeAt(now + SLOW_MS)
      const deadlineAt = worker.deadlineAt(harakiriMs)
      if (deadlineAt < Number.POSITIVE_INFINITY) this.#alarm.wakeAt(Math.min(deadlineAt, now + STEP_MS))
    }
  }

  /**
   * Checks the workers from outside, so that a handler that blocks its event loop cannot escape. A worker whose last message is
   * 20 ms old announces the next start before it begins the task. So a task whose start was not announced began within 20 ms of the
   * worker's last message.
   */
  #check(lateMs: number): void {
    const { harakiriMs } = this.roster.options.worker
    const now = performance.now()
    for (const worker of this.roster.workers) {
      if (lateMs > STOPPED_MS) worker.postpone(lateMs + STEP_MS) // the alarm was set at most STEP_MS before its time
      if (now >= worker.deadlineAt(harakiriMs)) this.#harakiri(worker, harakiriMs)
      else if (worker.work.hasAhead && now >= (worker.work.runningSince ?? now) + SLOW_MS) {
        this.#withdraw(worker)
        this.dispatch()
      }
    }
    this.#watch()
  }

  /** Which of the worker's tasks overran is reported after its end, when their files can tell. */
  #harakiri(worker: WorkerProcess, harakiriMs: number): void {
    const { spool, events } = this.#pool
    events.emit('worker-overran', { spool, pid: worker.pid })
    worker.killForOverrun(harakiriMs)
  }
}

/** `gone` counts: the task ended in another worker, or in a worker that died before it could report. */
function hasEnded({ kind }: Report): boolean {
  return isHandled(kind) || kind === 'ignore' || kind === 'gone'
}

/** True if nothing is left to do with the task, for workers or for people. */
function isOver({ kind }: Report): boolean {
  return kind === 'ok' || kind === 'gone'
}

function isSilent({ state, work }: WorkerProcess): boolean {
  return work.tasks.isRecalling && state !== 'exited'
}

/** A report of what the feed does not know. It knows that a due task is ready. */
function reportOf(ref: Ref, found: Found | undefined): Report[] {
  if (found === 'gone') return [{ ref, kind: 'gone', ranMs: 0 }]
  return typeof found === 'number' ? [{ ref, kind: 'later', atMs: found, ranMs: 0 }] : []
}

/**
 * True if the worker began the task and did not end it: the file has its mark, or a lock that a program of the task still holds.
 * The lock of a recalled task may be another worker's.
 */
function isBegun(found: Found | undefined, isRecalled: boolean): boolean {
  return found === 'begun' || (found === 'locked' && !isRecalled)
}
