import { Alarm, STEP_MS, STOPPED_MS, Stall } from '../../base/clock.js'
import { withDeadline } from '../../base/promise.js'
import type { RespawnPace } from '../../base/respawn-pace.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Ref } from '../../base/task/ref.js'
import { type Found, isHandled, type Report } from '../../base/task/report.js'
import type { SlotWish } from '../../base/task/terms.js'
import { clearMarks } from './aside.js'
import type { Cancellations } from './cancellations.js'
import type { CrashedTasks } from './crashed-tasks.js'
import { lastRunOf } from './cut-short.js'
import { dispatch } from './dispatcher.js'
import { type Begun, begunOf, type Had } from './given-tasks.js'
import type { Halt } from './halt.js'
import type { PoolContext } from './pool-options.js'
import { Roster, type RosterOptions } from './roster.js'
import type { SignalRouter } from './signal-router.js'
import type { Exit, Reported } from './worker-port.js'
import type { HowGiven, WorkerProcess } from './worker-process.js'

interface FeederContext extends PoolContext {
  readonly signals: SignalRouter
  /**
   * Its workers run the tasks that have to run alone; otherwise, all that are due. If several tasks were running when their process
   * died, any of them may be to blame: they become suspects, and no crash is counted. A suspect that crashes again takes no other task
   * with it.
   */
  readonly isAlone: boolean
  readonly crashed: CrashedTasks
  readonly pace: RespawnPace
  readonly cancellations: Cancellations
  readonly halt: Halt
  /** The workers of the pool run one task at a time, so that those that have crashed run there; otherwise, they run alone. */
  isSequential(): boolean
  /** The worker is ready. */
  joined(worker: WorkerProcess): void
  /** There may be fewer workers than the target. */
  vacant(): void
  /** So many tasks have ended. */
  progressed(count: number): void
}

type Excused = Had & { readonly lastRun: LastRun }

/** A worker that is asked to hand back tasks and does not answer for so long runs something slow. */
const SILENT_MS = 100
/** A death is told after so long at the latest. */
const LOOK_MS = 2000
/** A worker that sent nothing for this long, or whose oldest task is this old, is running something slow. */
const SLOW_MS = 50

/** Workers with a common source of tasks: gives them tasks, takes tasks back, and enforces deadlines. */
export class Feeder {
  readonly roster: Roster
  readonly #context: FeederContext
  /** Where this process was stopped itself, the alarm comes before what workers have said meanwhile, which is read first. */
  readonly #alarm = new Alarm(lateMs => {
    const dueAt = performance.now() - lateMs
    setImmediate(() => this.#check(performance.now() - dueAt)) // it may have been stopped again, or for longer
  })
  readonly #stall = new Stall()
  /** Those that were withdrawn, may have begun, and were given to nobody since. */
  readonly #withdrawn = new Set<Ref>()
  /** How many refs were given out. */
  #given = 0
  /** What has to be done to the files of what ended workers had, before others get it. */
  readonly #settling = new Set<Promise<void>>()
  /** What workers had that ended while all end, and their processes. */
  readonly cutAtEnd: Array<Had & { readonly pid: number }> = []
  readonly #renewal: NodeJS.Timeout | undefined

  constructor(options: RosterOptions, context: FeederContext) {
    const { feed, events, signals, pace } = context
    this.#context = context
    this.roster = new Roster(
      options,
      {
        areLeased: feed.leases !== undefined,
        opened: context.dispatch,
        signalled: (worker, message) => signals.hear(worker, message),
        reported: (worker, reported) => this.#reported(worker, reported),
        claimed: refs => feed.report({ claimed: refs }),
        dropped: refs => feed.lose({ refs }),
        deadline: () => this.#watch(),
        joined: worker => {
          if (!context.isAlone) signals.declared(worker, worker.news)
          context.joined(worker)
        },
        exited: (worker, exit, mayBeReplaced) => this.#exited(worker, exit, mayBeReplaced),
        vacant: context.vacant,
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
    const { feed, isAlone, signals, isHalted } = this.#context
    const { crashed } = this
    if (roster.isClosed) return
    if (!isHalted()) {
      if (crashed?.isOverdue === true) this.#giveCrashed(crashed)
      dispatch(roster.workers, {
        signalFor: worker => signals.take(worker),
        ready: this.ready,
        batchMs: feed.leases?.batchMs,
        isByArrival: feed.isByArrival === true,
        isShrinking: roster.excess > 0,
        due: limit => feed.take(limit, isAlone ? 'alone' : undefined),
        give: (worker, refs) => this.#give(worker, refs),
      })
      if (crashed?.isReady === true) this.#giveCrashed(crashed)
    }
    this.#watch()
  }

  /** How many tasks could be given out now. It may be an estimate. */
  get ready(): number {
    const { feed, isAlone } = this.#context
    return isAlone ? feed.state.parked.alone : feed.state.ready
  }

  /** Those that have crashed, if they are for these workers. */
  get crashed(): CrashedTasks | undefined {
    const { isAlone, isSequential, crashed } = this.#context
    return isSequential() === isAlone ? undefined : crashed
  }

  #give(worker: WorkerProcess, refs: readonly Ref[], how?: HowGiven): void {
    const { feed, lastRuns } = this.#context
    this.#given += refs.length
    this.#forgetWithdrawn(refs)
    worker.run(refs, lastRuns.among(refs), feed.state.slots, how)
  }

  /** To workers for which nothing else is due. */
  #giveCrashed(crashed: CrashedTasks): void {
    for (const worker of this.roster.workers) {
      if (!worker.isIdle) continue
      const ref = crashed.takeFor(worker)
      if (ref === undefined) return
      this.#give(worker, [ref], { isTheirTurn: true })
    }
  }

  /** What they have not started goes back: they may start it otherwise whenever they get to it. */
  takeBack(): void {
    for (const worker of this.roster.workers)
      if (worker.isOpen && worker.work.outstanding > 0) this.#withdraw(worker)
  }

  /**
   * Takes back from a worker what it has not begun, for others. A worker that is silent may have run some of that and may be running
   * one. Another worker that is given it finds out; for those that none is given, somebody looks aside, because people and algorithms
   * count what is due.
   */
  #withdraw(worker: WorkerProcess): void {
    const { feed } = this.#context
    const refs = worker.recall()
    feed.lose({ refs })
    if (feed.leases !== undefined) return // there a ref does not tell where to look
    for (const ref of refs) this.#withdrawn.add(ref)
    setTimeout(() => {
      void this.#lookAt(worker).finally(() => this.#forgetWithdrawn(refs))
    }, SILENT_MS).unref()
  }

  #forgetWithdrawn(refs: readonly Ref[]): void {
    if (this.#withdrawn.size > 0) for (const ref of refs) this.#withdrawn.delete(ref)
  }

  async #lookAt(worker: WorkerProcess): Promise<void> {
    const { feed, looker } = this.#context
    const unclear = isSilent(worker) ? worker.work.tasks.unclear : []
    if (unclear.length === 0 || looker === undefined) return
    const refs = unclear.map(([, { ref }]) => ref)
    const found = await looker.look(refs)
    if (found === undefined || !isSilent(worker)) return
    // what another worker has by now is locked by that one, or gone because it ran there
    const its = new Map(unclear.map(([number], i) => [number, found[i] ?? 'due'] as const))
    for (const [number, { ref, isRecalled }] of unclear)
      if (isRecalled && !this.#withdrawn.has(ref)) its.delete(number)
    const looked = worker.work.tasks.looked(its)
    worker.work.noteActivity()
    if (looked === undefined) return
    const reports = refs.flatMap((ref, i) => reportOf(ref, found[i]))
    feed.lose({ refs: looked.freed })
    feed.report({ found: { begun: looked.begun, reports } })
    this.#context.dispatch()
  }

  /** For how long tasks have been due and a worker idle, and nothing was given out, in milliseconds. */
  get stalledMs(): number {
    const { roster } = this
    const mayGive =
      !roster.isClosed &&
      !this.#context.isHalted() &&
      this.ready > 0 &&
      [...roster.workers].some(({ isIdle }) => isIdle)
    return this.#stall.look(mayGive ? this.#given : undefined)
  }

  #reported(worker: WorkerProcess, reported: Reported): void {
    const { done, doneNames, reports, late, known, ids, wishes } = reported
    const { spool, feed, lastRuns, events, halt } = this.#context
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
      ids,
    })
    const ended = done.length + reports.filter(hasEnded).length
    if (ended > 0) this.#context.progressed(ended)
    this.#context.dispatch()
  }

  /** To workers from which they were withdrawn, and which have not said yet what they did with them. */
  #tellEnds({ done, reports }: Reported): void {
    if (this.#context.feed.leases !== undefined) return // there a ref is no task
    let ended: ReadonlySet<Ref> | undefined
    for (const { work } of this.#context.workers()) {
      if (!work.tasks.hasRecalled) continue
      ended ??= new Set([...done, ...reports.filter(isOver).map(({ ref }) => ref)])
      work.tasks.endedElsewhere(ended)
    }
  }

  /** It was recalled, and the worker that had it first has begun it: that one's report or end says what becomes of it. */
  #isTakenBack({ ref, kind }: Report): boolean {
    if (kind !== 'locked') return false
    for (const { work } of this.roster.workers) if (work.tasks.takeBack(ref)) return true
    return false
  }

  /** Gives a worker more tasks of a name that it runs: they begin there as soon as the slots are free that it has. */
  #follow(worker: WorkerProcess, { wanted, name, count }: SlotWish): void {
    const { roster } = this
    const { feed, isAlone, isHalted } = this.#context
    if (isAlone || roster.isClosed || roster.excess > 0 || isHalted() || !worker.isOpen) return
    const refs = feed.take(wanted, { name, count })
    if (refs.length > 0) this.#give(worker, refs, { follow: name })
  }

  #exited(worker: WorkerProcess, exit: Exit, mayBeReplaced: boolean): void {
    const { feed, lastRuns, signals, cancellations, tell } = this.#context
    const buried = cancellations.exited(worker, exit)
    const all = worker.work.tasks.had
    const cut = all
      .filter(({ ref }) => !buried.has(ref))
      .map(had => ({
        ...had,
        lastRun: lastRunOf(had, worker.killed, exit, worker.isInnocent(had.number)),
      }))
    if (feed.leases === undefined) for (const { ref, lastRun } of cut) lastRuns.add(ref, lastRun)
    else
      feed.lose({
        cutShort: cut.flatMap(({ ref, lastRun, lease }) =>
          lease === undefined ? [] : [{ ref, lastRun, lease }],
        ),
        worker: { identity: worker.identity, leases: all.flatMap(({ lease }) => lease ?? []) },
      })
    signals.exited(worker)
    // their files were seen to be gone, and their worker has ended without a report of them
    const gone = worker.work.tasks.ended.map(({ ref }) => ({ ref, kind: 'gone', ranMs: 0 }) as const)
    tell(worker.pid, gone)
    const left = worker.work.tasks.left.filter(ref => !buried.has(ref))
    if (this.roster.isClosed) this.cutAtEnd.push(...cut.map(had => ({ ...had, pid: worker.pid })))
    const excused = this.roster.isClosed ? [] : lastRuns.excused(cut)
    // though it was asked to end, or about to
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
   * Its files say what it had begun without a word, before others begin that.
   *
   * @returns when it is told; undefined: it is
   */
  #tellEnd(
    worker: WorkerProcess,
    exit: Exit,
    isDeath: boolean,
    mayBeReplaced: boolean,
  ): Promise<void> | undefined {
    const { spool, feed, looker, events } = this.#context
    const { pid, work } = worker
    const { code, signal, why } = exit
    const isReplaced = why === 'failed' && mayBeReplaced
    const tell = (begun: readonly Begun[]) => {
      const running = begun.map(({ name }) => name)
      const overran = begun.filter(({ startedAt }) => worker.hasOverrun(startedAt)).map(({ name }) => name)
      const isOwn = worker.killed?.kind === 'own-deadline'
      if (overran.length > 0) events.emit('tasks-overran', { spool, pid, names: overran, isOwn })
      if (isDeath) events.emit('worker-died', { spool, pid, code, signal, running, isReplaced })
    }
    const { unclear } = work.tasks
    if (unclear.length === 0 || looker === undefined || feed.leases !== undefined)
      return void tell(work.tasks.begun)
    const refs = unclear.map(([, { ref }]) => ref)
    const sinceMs = Math.min(...unclear.map(([, { givenAtMs }]) => givenAtMs))
    const looked = looker.begun(refs, sinceMs)
    return withDeadline(looked, LOOK_MS, () => undefined).then(found => {
      if (found === undefined) return tell(work.tasks.begun)
      const ran = unclear.filter(
        ([number, { isRecalled }], i) => isBegun(found[i], isRecalled) && !worker.isInnocent(number),
      )
      tell(ran.map(([, given]) => begunOf(given, work.tasks.heardAt)))
    })
  }

  /** On disk, before they are given to others: a daemon that ends before they have run remembers no excuse. */
  async #unmark({ pid }: WorkerProcess, excused: readonly Excused[], left: readonly Ref[]): Promise<void> {
    const { feed, lastRuns, events, tell } = this.#context
    const reports = (await clearMarks(this.roster.options, excused, events)).filter(({ ref }) =>
      left.includes(ref),
    )
    const over = new Set(reports.map(({ ref }) => ref))
    if (over.size > 0) {
      lastRuns.reported(reports)
      feed.report({ returned: reports })
      tell(pid, reports)
    }
    feed.lose({ refs: left.filter(ref => !over.has(ref)) })
  }

  /** Its workers have ended. Resolves when all that was excused has no mark of that run, and each death is told. */
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
   * Checks the workers from outside, so that a handler that blocks its event loop cannot escape. A worker whose last message is 20 ms
   * old announces a start before it makes it. So a task whose start was not announced began within 20 ms of the worker's last message.
   */
  #check(lateMs: number): void {
    const { harakiriMs } = this.roster.options.worker
    const now = performance.now()
    for (const worker of this.roster.workers) {
      if (lateMs > STOPPED_MS) worker.postpone(lateMs + STEP_MS) // it was set at most so long before its time
      if (now >= worker.deadlineAt(harakiriMs)) this.#harakiri(worker, harakiriMs)
      else if (worker.work.hasAhead && now >= (worker.work.runningSince ?? now) + SLOW_MS) {
        this.#withdraw(worker)
        this.dispatch()
      }
    }
    this.#watch()
  }

  /** Which of its tasks overran is told after its end, when their files can tell. */
  #harakiri(worker: WorkerProcess, harakiriMs: number): void {
    const { spool, events } = this.#context
    events.emit('worker-overran', { spool, pid: worker.pid })
    worker.killForOverrun(harakiriMs)
  }
}

/** `gone` counts: the task ended in another worker, or in one that died before it could report. */
function hasEnded({ kind }: Report): boolean {
  return isHandled(kind) || kind === 'ignore' || kind === 'gone'
}

/** Nobody has anything to do with it any more, nor people. */
function isOver({ kind }: Report): boolean {
  return kind === 'ok' || kind === 'gone'
}

function isSilent({ state, work }: WorkerProcess): boolean {
  return work.tasks.isRecalling && state !== 'exited'
}

/** What the feed does not know: that what is due is ready, it does. */
function reportOf(ref: Ref, found: Found | undefined): Report[] {
  if (found === 'gone') return [{ ref, kind: 'gone', ranMs: 0 }]
  return typeof found === 'number' ? [{ ref, kind: 'later', atMs: found, ranMs: 0 }] : []
}

/** What it began and has not ended: its mark, or a lock that a program of the task holds longer. Others may hold what was recalled. */
function isBegun(found: Found | undefined, isRecalled: boolean): boolean {
  return found === 'begun' || (found === 'locked' && !isRecalled)
}
