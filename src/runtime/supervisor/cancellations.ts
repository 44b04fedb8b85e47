import { type CancelNews, type CancelResult, cancelledDetail } from '../../base/task/cancel.js'
import type { Ref, TaskName } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { AsideReply, WorkerMessage } from '../ipc/messages.js'
import { askAside } from './aside.js'
import { Cancellation, isHeld } from './cancellation.js'
import { howOf } from './cut-short.js'
import type { Given } from './given-tasks.js'
import type { PoolContext } from './pool-options.js'
import type { Exit, SpawnOptions } from './worker-port.js'
import type { WorkerProcess } from './worker-process.js'

/** The tasks of one pool that people have cancelled, until each has ended. */
export class Cancellations {
  readonly #context: PoolContext
  readonly #options: () => Omit<SpawnOptions, 'answer'>
  readonly #current = new Set<Cancellation>()
  readonly #burials = new Set<Promise<void>>()

  constructor(context: PoolContext, options: () => Omit<SpawnOptions, 'answer'>) {
    this.#context = context
    this.#options = options
  }

  /** Ends a task that a worker runs or has claimed. @param tell hears what it waits for, if that takes long */
  async cancel(name: TaskName, tell: (news: CancelNews) => void): Promise<CancelResult> {
    const cancellation = [...this.#current].find(each => each.name === name) ?? this.#begin(name)
    if (cancellation === undefined) return { result: 'elsewhere' }
    cancellation.listen(tell)
    return await cancellation.whenEnded
  }

  #begin(name: TaskName): Cancellation | undefined {
    const { feed, events, dispatch } = this.#context
    for (const worker of this.#context.workers())
      for (const number of worker.work.tasks.numbersOf(name)) {
        const given = worker.work.tasks.of(number)
        if (given === undefined || !isHeld(worker, given)) continue
        const cancellation = new Cancellation({ worker, number, given, feed, events })
        this.#current.add(cancellation)
        void cancellation.whenEnded.then(() => {
          this.#current.delete(cancellation)
          dispatch()
        })
        return cancellation
      }
    return undefined
  }

  answered(worker: WorkerProcess, answer: Extract<WorkerMessage, { type: 'cancelling' }>): void {
    for (const each of this.#current)
      if (each.worker === worker && each.number === answer.number) each.answered(answer)
  }

  /**
   * Buries what was cancelled in a worker that has exited, for whatever reason.
   *
   * @returns those refs: they are not to be given to another worker
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
    const { feed } = this.#context
    const refOf = ({ ref, notice }: Given) =>
      (notice?.lease === undefined ? undefined : feed.leases?.refOf(notice.lease)) ?? ref
    const tasks = mine.map(({ given }) => ({ ref: refOf(given), detail: cancelledDetail(how) }))
    const options = this.#options()
    const reply = await askAside(options, { type: 'bury-cancelled', options: options.worker, tasks })
    for (const [i, cancellation] of mine.entries())
      this.#buried(pid, cancellation, tasks[i]?.detail ?? how, reportOf(reply, i, cancellation))
    this.#context.dispatch()
  }

  #buried(pid: number, cancellation: Cancellation, detail: string, report: Report | string): void {
    const { feed, lastRuns, events } = this.#context
    const { given, name, worker } = cancellation
    const { ref } = given
    if (typeof report === 'string') {
      // the next worker that claims it buries it
      const lastRun = { kind: 'cancelled', detail } as const
      if (given.notice?.lease === undefined) lastRuns.add(ref, lastRun)
      else feed.lose({ cutShort: [{ ref, lastRun, lease: given.notice.lease }] })
      if (!given.isRecalled) feed.lose({ refs: [ref] })
      return cancellation.end({ result: 'unburied', detail: report })
    }
    lastRuns.reported([report])
    if (!given.isRecalled) feed.report({ returned: [report] })
    const known = new Set(given.isAnnounced ? [name] : [])
    events.emit('tasks-reported', { spool: worker.spool, pid, done: [], reports: [report], known })
    cancellation.end(resultOf(report))
  }
}

/** @returns why there is none */
function reportOf(reply: AsideReply | string, i: number, { name, given }: Cancellation): Report | string {
  if (typeof reply === 'string') return reply
  const report = reply.type === 'cancelled-buried' ? reply.reports[i] : undefined
  if (report === undefined) return 'the process that was to bury it has answered something else'
  if (report.kind === 'locked' || report.kind === 'unreadable')
    return report.detail ?? 'another process holds it'
  return given.notice === undefined ? report : { ...report, ref: given.ref, name }
}

function resultOf({ kind, detail }: Report): CancelResult {
  if (kind === 'set-aside' || kind === 'buried') return { result: 'cancelled' }
  if (kind === 'gone') return { result: 'done' }
  if (kind === 'untouched' || kind === 'later') return { result: 'waiting' }
  return { result: 'unburied', ...(detail === undefined ? {} : { detail }) }
}
