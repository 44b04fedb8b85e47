import { Alarm, STEP_MS, STOPPED_MS, Stall } from '../../base/clock.js'
import type { RespawnPace } from '../../base/respawn-pace.js'
import type { Ref } from '../../base/task/ref.js'
import { isHandled, type Report } from '../../base/task/report.js'
import type { SlotWish } from '../../base/task/terms.js'
import { clearMarks } from './aside.js'
import type { Cancellations } from './cancellations.js'
import type { CrashedTasks } from './crashed-tasks.js'
import { type Excused, lastRunOf } from './cut-short.js'
import { dispatch } from './dispatcher.js'
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
    for (const worker of this.roster.workers) if (worker.work.outstanding > 0) this.#withdraw(worker, true)
  }

  /** @see WorkerProcess.withdraw */
  #withdraw(worker: WorkerProcess, isAll: boolean): void {
    this.#pool.feed.lose({ refs: worker.withdraw(isAll) })
  }

  /** Tells the feed what the silent worker has done and not reported: no task waits until the worker can. */
  #takeOver({ work }: WorkerProcess): void {
    const { feed, lastRuns } = this.#pool
    const { done, kept } = work.tasks.takeOver()
    lastRuns.done(done)
    feed.report({ done })
    feed.lose({ refs: kept })
    work.noteActivity()
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
    lastRuns.done(done)
    lastRuns.reported(reports)
    feed.report({ done, returned: reports })
    halt.reported(reports)
    for (const wish of wishes) this.#follow(worker, wish)
    const told = late.length === 0 ? reports : [...reports, ...late]
    events.emit('tasks-reported', { spool, pid, done: doneNames, reports: told, known })
    const ended = doneNames.length + told.filter(hasEnded).length
    if (ended > 0) this.#pool.progressed(ended)
    this.#pool.dispatch()
  }

  /** Gives a worker more tasks of a name that it runs: each begins as soon as one of the worker's slots is free. */
  #follow(worker: WorkerProcess, { wanted, name, count }: SlotWish): void {
    const { roster } = this
    const { feed, isHalted } = this.#pool
    if (this.#isAlone || roster.isClosed || roster.excess > 0 || isHalted || !worker.isOpen) return
    const refs = feed.take(Math.min(wanted, worker.work.tasks.room), { name, count })
    if (refs.length > 0) this.#give(worker, refs, { follow: name })
  }

  #exited(worker: WorkerProcess, exit: Exit, mayBeReplaced: boolean): void {
    const { feed, lastRuns, signals, cancellations } = this.#pool
    const buried = cancellations.exited(worker, exit)
    const all = worker.work.tasks.begun
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
    const unreported = worker.work.tasks.done.map(
      ({ ref, name }) => ({ ref, name, kind: 'ok', ranMs: 0 }) as const,
    )
    this.#pool.tell(worker.pid, unreported)
    this.#takeOver(worker)
    const left = worker.work.tasks.refs.filter(ref => !buried.has(ref))
    const excused = lastRuns.excused(cut.map(({ given }) => given))
    // killed from outside, even if the worker was asked to end, or about to
    const isByOthers = exit.signal !== null && worker.killed === undefined && all.length > 0
    const isDeath = exit.why === 'failed' || (isByOthers && exit.why !== 'faulted')
    const isTold = exit.unforked === undefined && (isDeath || worker.hasOverrun())
    if (isTold) this.#tellEnd(worker, exit, isDeath, mayBeReplaced)
    if (excused.length === 0) return feed.lose({ refs: left })
    const settled = this.#unmark(worker, excused, left).finally(() => {
      this.#settling.delete(settled)
      this.dispatch()
    })
    this.#settling.add(settled)
  }

  /** Reports a worker's death, and which of its tasks overran their deadlines. */
  #tellEnd(worker: WorkerProcess, exit: Exit, isDeath: boolean, mayBeReplaced: boolean): void {
    const { spool, events } = this.#pool
    const { pid, work } = worker
    const { code, signal, why } = exit
    const begun = work.tasks.begun.filter(({ number }) => !worker.isInnocent(number))
    const running = begun.map(({ name }) => name)
    const overran = begun.filter(({ beganAt }) => worker.hasOverrun(beganAt)).map(({ name }) => name)
    const isOwn = worker.killed?.kind === 'own-deadline'
    if (overran.length > 0) events.emit('tasks-overran', { spool, pid, names: overran, isOwn })
    const isReplaced = why === 'failed' && mayBeReplaced
    if (isDeath) events.emit('worker-died', { spool, pid, code, signal, running, isReplaced })
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
        this.#withdraw(worker, false)
        this.#takeOver(worker)
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
