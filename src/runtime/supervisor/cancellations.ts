import { CANCEL_MS, type CancelNews, type CancelResult, cancelledDetail } from '../../base/task/cancel.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Ref, TaskName } from '../../base/task/ref.js'
import type { Report, ReportKind } from '../../base/task/report.js'
import { howOf } from './cut-short.js'
import type { CancelAnswer, Given, TaskWatcher } from './given-tasks.js'
import type { PoolContext } from './pool-options.js'
import type { Exit } from './worker-port.js'
import type { WorkerProcess } from './worker-process.js'

/** How often an overdue process is checked for whether it can be killed. */
const LOOK_MS = 100
/** How much longer a worker that runs a program has, because it ends the program by SIGKILL when the master would kill the worker. */
const PROGRAM_MS = 2000
/** Within this time, a worker that is not blocked hands back what it has not begun. */
const RECALL_MS = 1000

/** The tasks of one pool that people have cancelled, until each has ended. */
export class Cancellations {
  readonly #pool: PoolContext
  readonly #current = new Set<Cancellation>()
  readonly #burials = new Set<Promise<void>>()

  constructor(pool: PoolContext) {
    this.#pool = pool
  }

  /** Ends a task that a worker runs or has claimed. @param tell hears what the cancellation waits for, if that takes long */
  async cancel(name: TaskName, tell: (news: CancelNews) => void): Promise<CancelResult> {
    const cancellation = [...this.#current].find(each => each.given.name === name) ?? this.#begin(name)
    if (cancellation === undefined) return { result: 'elsewhere' }
    cancellation.listen(tell)
    return await cancellation.whenEnded
  }

  #begin(name: TaskName): Cancellation | undefined {
    for (const worker of this.#pool.allWorkers) {
      const given = worker.work.tasks.named(name)
      if (given?.isTaken !== true) continue
      const cancellation = new Cancellation(worker, given, this.#pool)
      this.#current.add(cancellation)
      void cancellation.whenEnded.then(() => {
        this.#current.delete(cancellation)
        this.#pool.dispatch()
      })
      return cancellation
    }
    return undefined
  }

  /**
   * Buries the cancelled tasks of a worker that has exited, for whatever reason.
   *
   * @returns their refs, which must not be given to another worker
   */
  exited(worker: WorkerProcess, exit: Exit): ReadonlySet<Ref> {
    const mine = [...this.#current].filter(each => each.worker === worker)
    if (mine.length === 0) return new Set()
    for (const each of mine) each.exited()
    const burial = this.#bury(worker, mine, exit).finally(() => this.#burials.delete(burial))
    this.#burials.add(burial)
    return new Set(mine.map(({ given }) => given.ref))
  }

  /** Resolves when nothing waits to be buried. */
  async settled(): Promise<void> {
    await Promise.all(this.#burials)
  }

  async #bury({ pid, killed }: WorkerProcess, mine: readonly Cancellation[], exit: Exit): Promise<void> {
    const how =
      killed?.kind === 'cancel'
        ? 'did not end by itself, so its process was killed'
        : `its process ${howOf(exit)}`
    const { feed } = this.#pool
    const refOf = ({ ref, lease }: Given) =>
      (lease === undefined ? undefined : feed.leases?.refOf(lease)) ?? ref
    const lastRun = { kind: 'cancelled', detail: cancelledDetail(how) } as const
    const tasks = mine.map(({ given }) => ({ ref: refOf(given), lastRun }))
    const found = await this.#pool.aside.settlePast(this.#pool.options.worker, tasks)
    for (const [i, cancellation] of mine.entries())
      this.#buried(pid, cancellation, lastRun, reportOf(found[i], cancellation))
    this.#pool.dispatch()
  }

  #buried(pid: number, cancellation: Cancellation, lastRun: LastRun, report: Report | string): void {
    const { feed, lastRuns } = this.#pool
    const { given } = cancellation
    const { ref, name, lease } = given
    if (typeof report === 'string') {
      // the next worker that claims it buries it
      if (lease === undefined) lastRuns.add(ref, lastRun)
      else feed.lose({ cutShort: [{ ref, lastRun, lease }] })
      feed.lose({ refs: [ref] })
      return cancellation.end({ result: 'unburied', detail: report })
    }
    lastRuns.reported([report])
    feed.report({ returned: [report] })
    const known = new Set(given.isAnnounced ? [name] : [])
    this.#pool.tell(pid, [report], known)
    cancellation.end(resultOf(report))
  }
}

/** @returns the report of a burial, or a text that says why there is none */
function reportOf(
  found: Report | string | null | undefined,
  { given: { ref, name, notice } }: Cancellation,
): Report | string {
  if (found === undefined) return 'the process that was to bury it has answered something else'
  if (found === null) return { ref, name, kind: 'untouched', ranMs: 0 }
  return typeof found === 'string' || notice === undefined ? found : { ...found, ref, name }
}

function resultOf({ kind, detail }: Report): CancelResult {
  if (kind === 'set-aside' || kind === 'buried') return { result: 'cancelled' }
  if (kind === 'gone') return { result: 'done' }
  if (kind === 'untouched' || kind === 'later') return { result: 'waiting' }
  return { result: 'unburied', ...(detail === undefined ? {} : { detail }) }
}

/**
 * Ends one running task. Its handler is told by the task's signal. If the task has not ended within five seconds, its process is
 * killed. No other task pays for that: what the process has not begun is handed back, and what else runs there ends first.
 *
 * States: asked → overdue (the process is given nothing more) → ended.
 */
class Cancellation implements TaskWatcher {
  readonly worker: WorkerProcess
  readonly given: Given
  readonly #pool: PoolContext
  readonly #listeners = new Set<(news: CancelNews) => void>()
  #answer: CancelAnswer | undefined
  #timer: NodeJS.Timeout
  #recalledAt: number | undefined
  #others: number | undefined
  #hasEnded = false
  #resolve: (result: CancelResult) => void = () => {}
  readonly whenEnded = new Promise<CancelResult>(resolve => {
    this.#resolve = resolve
  })

  constructor(worker: WorkerProcess, given: Given, pool: PoolContext) {
    this.#pool = pool
    this.worker = worker
    this.given = given
    given.watcher = this
    this.#timer = setTimeout(() => this.#overdue(), CANCEL_MS)
    pool.events.emit('task-cancelling', { spool: worker.spool, pid: worker.pid, name: given.name })
    worker.cancel(given.number)
  }

  listen(tell: (news: CancelNews) => void): void {
    this.#listeners.add(tell)
    if (this.#others !== undefined) tell({ pid: this.worker.pid, others: this.#others })
  }

  answered(answer: CancelAnswer): void {
    this.#answer = answer
  }

  end(result: CancelResult): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    clearTimeout(this.#timer)
    this.worker.overdue.delete(this.given.number)
    this.given.watcher = undefined
    this.#resolve(result)
  }

  /** The process has exited. `Cancellations.exited` finds out what became of the task. */
  exited(): void {
    clearTimeout(this.#timer)
  }

  reported(kind: ReportKind, detail?: string): void {
    const isEnded = this.#answer?.hasBegun === true
    switch (kind) {
      case 'ok':
      case 'gone':
        return this.end({ result: 'done' })
      case 'buried':
      case 'set-aside':
        return this.end({ result: isEnded ? 'cancelled' : 'buried' })
      case 'unsettled':
        return this.end({ result: 'unburied', ...(detail === undefined ? {} : { detail }) })
      default:
        return this.end({ result: 'waiting' })
    }
  }

  #overdue(): void {
    if (this.#answer?.isProgram === true && this.#recalledAt === undefined) {
      this.#answer = { ...this.#answer, isProgram: false }
      this.#timer = setTimeout(() => this.#overdue(), PROGRAM_MS)
      return
    }
    this.worker.overdue.add(this.given.number)
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
    this.#look()
  }

  #look(): void {
    const { worker } = this
    const { feed } = this.#pool
    if (worker.state === 'exited' || worker.killed !== undefined) return
    if (worker.work.hasAhead) feed.lose({ refs: worker.withdraw(true) })
    this.#recalledAt ??= performance.now()
    if (!this.#hasBegun) return this.end({ result: 'waiting' })
    const others = worker.work.besides(worker.overdue)
    this.#tell(others)
    const isHandedBack = !worker.work.tasks.isRecalling || performance.now() > this.#recalledAt + RECALL_MS
    if (others > 0 || !isHandedBack) return
    const names = [...worker.overdue].flatMap(number => worker.work.nameOf(number) ?? [])
    this.#pool.events.emit('worker-cancelled', { spool: worker.spool, pid: worker.pid, names })
    worker.killForCancel()
  }

  /** True if the worker runs this task. */
  get #hasBegun(): boolean {
    return this.#answer?.hasBegun ?? this.given.isTaken
  }

  #tell(others: number): void {
    if (others === this.#others) return
    this.#others = others
    if (others > 0) for (const tell of this.#listeners) tell({ pid: this.worker.pid, others })
  }
}
