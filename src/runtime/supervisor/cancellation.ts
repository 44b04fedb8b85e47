import { readdirSync, readlinkSync } from 'node:fs'
import type { Emitter } from '../../base/events/emitter.js'
import { CANCEL_MS, type CancelNews, type CancelResult } from '../../base/task/cancel.js'
import { type TaskName, toByteString } from '../../base/task/ref.js'
import type { ReportKind } from '../../base/task/report.js'
import type { Feed } from '../../engines/feed.js'
import type { WorkerMessage } from '../ipc/messages.js'
import { type Given, nameOf } from './given-tasks.js'
import type { WorkerProcess } from './worker-process.js'

type Answer = Extract<WorkerMessage, { type: 'cancelling' }>

interface CancellationOptions {
  readonly worker: WorkerProcess
  readonly number: number
  readonly given: Given
  readonly feed: Feed
  readonly events: Emitter
}

/** How often a process that is to be killed is looked at. */
const LOOK_MS = 100
/** The worker ends a program by SIGKILL when the master would kill the worker. */
const PROGRAM_MS = 2000
/** A worker that is not blocked hands back within that time what it has not begun. */
const RECALL_MS = 1000

/**
 * Ends one running task. Its handler is told, by its signal; if the task has not ended within five seconds, its process is
 * killed. No other task pays for that: what the process has not begun is handed back, and what else runs there ends first.
 *
 * States: asked → overdue (its process is given nothing more) → ended.
 */
export class Cancellation {
  readonly worker: WorkerProcess
  readonly number: number
  readonly given: Given
  readonly name: TaskName
  readonly #options: CancellationOptions
  readonly #listeners = new Set<(news: CancelNews) => void>()
  #answer: Answer | undefined
  #timer: NodeJS.Timeout
  #recalledAt: number | undefined
  #others: number | undefined
  #hasEnded = false
  #resolve: (result: CancelResult) => void = () => {}
  readonly whenEnded = new Promise<CancelResult>(resolve => {
    this.#resolve = resolve
  })

  constructor(options: CancellationOptions) {
    const { worker, number, given, events } = options
    this.#options = options
    this.worker = worker
    this.number = number
    this.given = given
    this.name = nameOf(given)
    given.watcher = (kind, detail) => this.#reported(kind, detail)
    this.#timer = setTimeout(() => this.#overdue(), CANCEL_MS)
    events.emit('task-cancelling', { spool: worker.spool, pid: worker.pid, name: this.name })
    worker.cancel(number)
  }

  listen(tell: (news: CancelNews) => void): void {
    this.#listeners.add(tell)
    if (this.#others !== undefined) tell({ pid: this.worker.pid, others: this.#others })
  }

  /** The worker has read the request. */
  answered(answer: Answer): void {
    this.#answer = answer
  }

  end(result: CancelResult): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    clearTimeout(this.#timer)
    this.worker.isReserved = false
    this.given.watcher = undefined
    this.#resolve(result)
  }

  /** Its process has exited. What became of the task is found out by whoever looks at it next. */
  exited(): void {
    clearTimeout(this.#timer)
  }

  #reported(kind: ReportKind, detail: string | undefined): void {
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
    this.worker.isReserved = true
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
    this.#look()
  }

  #look(): void {
    const { worker, number } = this
    const { feed } = this.#options
    if (worker.state === 'exited') return
    if (worker.work.hasAhead) feed.lose({ refs: worker.recall() })
    this.#recalledAt ??= performance.now()
    if (!this.#hasBegun) return this.end({ result: 'waiting' })
    const others = worker.work.besides(number)
    this.#tell(others)
    const isHandedBack = !worker.work.isRecalling || performance.now() > this.#recalledAt + RECALL_MS
    if (others > 0 || !isHandedBack) return
    clearTimeout(this.#timer)
    this.#options.events.emit('worker-cancelled', { spool: worker.spool, pid: worker.pid, name: this.name })
    worker.killForCancel()
  }

  /** A worker that does not answer is blocked by what it runs: is it this task? */
  get #hasBegun(): boolean {
    if (this.#answer !== undefined) return this.#answer.hasBegun
    return isHeld(this.worker, this.given)
  }

  #tell(others: number): void {
    if (others === this.#others) return
    this.#others = others
    if (others > 0) for (const tell of this.#listeners) tell({ pid: this.worker.pid, others })
  }
}

/**
 * Whether this worker has claimed the task, so that no other process can run it. One that is too busy to say so shows it by the file
 * that it has open.
 */
export function isHeld({ pid, spool }: WorkerProcess, { ref, notice, startedAt }: Given): boolean {
  return notice !== undefined || startedAt !== undefined || hasOpen(pid, `${toByteString(spool)}/${ref}`)
}

/**
 * Whether a process of this user has a file open. Linux only: elsewhere, and for processes of other users, it is not known.
 *
 * @param path its real path, a byte string
 */
function hasOpen(pid: number, path: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some(fd => targetOf(pid, fd) === path)
  } catch {
    return false // it has ended
  }
}

function targetOf(pid: number, fd: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`, 'latin1')
  } catch {
    return undefined // it was closed meanwhile
  }
}
