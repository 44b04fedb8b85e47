import { Queue } from '../base/queue.js'
import { fromThrown } from '../task/answer.js'
import { UNBEGUN } from '../task/outcome.js'
import type { Executor, ExecutorListener } from './executor.js'
import { loadBody } from './hosts/frames.js'
import type { Host } from './hosts/host.js'
import type { Printer } from './printer.js'
import { REPORT_WITHIN_MS } from './report-buffer.js'
import type { Run } from './run.js'

/** One message runs while the next is made. */
const MESSAGES_AHEAD = 2

/** Runs tasks in one host, which takes them many at a time, one behind the other. */
export class HostExecutor implements Executor {
  readonly slots = 1
  /** A message and a change of process are cheap when they are shared. */
  readonly batchTasks = 64
  readonly #host: Host
  readonly #printer: Printer
  readonly #listener: ExecutorListener
  /** What the host has, oldest first. */
  readonly #sent = new Queue<Run>()
  #lastEndAt = 0
  #ticker: NodeJS.Timeout | undefined

  constructor(host: Host, printer: Printer, listener: ExecutorListener) {
    this.#host = host
    this.#printer = printer
    this.#listener = listener
    host.attach({
      progress: () => this.#progress(),
      recalled: count => this.#released(count),
      died: detail => this.#died(detail),
      revived: () => listener.hasRoom(),
      failed() {}, // nothing waits for it here
    })
  }

  get isOpen(): boolean {
    return this.#host.isOpen
  }

  get takesAhead(): boolean {
    return this.#host.messages < MESSAGES_AHEAD
  }

  get running(): Run | undefined {
    return this.#sent.peek()
  }

  /** A body that cannot be read, or is more than a host takes, is a failure of its own task. */
  start(batch: readonly Run[], now: number): void {
    // whether the first one begins is not known yet: it may be handed back
    if (this.#sent.size === 0) this.#lastEndAt = now
    const loaded = batch.filter(run => this.#load(run))
    if (loaded.length === 0) return
    for (const run of loaded) {
      run.startedAt = now
      this.#sent.push(run)
    }
    this.#host.send(loaded.map(({ claim }) => claim))
    this.#ticker ??= setInterval(() => this.#tick(), REPORT_WITHIN_MS)
  }

  #load(run: Run): boolean {
    try {
      if (run.claim.bodyBytes > 0) loadBody(run.claim)
      return true
    } catch (error) {
      this.#listener.ended(run, fromThrown(error), 0)
      return false
    }
  }

  turnBegan(): void {}

  recall(): void {
    if (this.#sent.size > 1 && !this.#host.isRecalling) {
      const left = this.#host.recall()
      this.#released(this.#sent.size - left)
    }
  }

  /** Nobody knows whose code threw: what has not ended is as if it had not begun. */
  fault(): boolean {
    this.#settleEnded()
    this.#released(this.#sent.size)
    return false
  }

  /** While the host works and does not speak: what takes long is told of. */
  #tick(): void {
    if (this.#sent.size === 0) {
      clearInterval(this.#ticker)
      this.#ticker = undefined
      return
    }
    this.#host.listen()
    this.#progress()
    const head = this.#sent.peek()
    if (head !== undefined && this.#host.hasStarted()) this.#listener.announce(head)
  }

  #progress(): void {
    this.#settleEnded()
    this.#listener.batchEnded()
  }

  #settleEnded(): void {
    const ended = this.#host.collect()
    const now = performance.now()
    // how long each took is not known of those that ended together
    const ranMs = (now - this.#lastEndAt) / ended.length
    if (ended.length > 0) this.#lastEndAt = now
    for (const { outcome, printed } of ended) {
      this.#print(printed, this.#sent.peek())
      const run = this.#sent.pop()
      if (run !== undefined) this.#listener.ended(run, outcome, ranMs)
    }
    const printed = this.#host.takePrinted()
    if (printed !== '') this.#print(printed, this.#host.hasStarted() ? this.#sent.peek() : undefined)
  }

  /** Behind the line that its author begins. */
  #print(text: string, author: Run | undefined): void {
    if (text !== '' && author !== undefined) this.#listener.announce(author)
    this.#printer.print(author?.claim.ref ?? null, 'output', text)
  }

  /** The host will not start the last `count` of those that it has. */
  #released(count: number): void {
    const all = [...this.#sent]
    this.#sent.clear()
    const kept = all.length - count
    for (const run of all.slice(0, kept)) this.#sent.push(run)
    for (const run of all.slice(kept)) this.#listener.ended(run, UNBEGUN, 0)
    this.#listener.batchEnded()
  }

  #died(detail: string): void {
    this.#settleEnded()
    const ran = this.#host.hasStarted() ? this.#sent.pop() : undefined
    if (ran !== undefined)
      this.#listener.ended(ran, { kind: 'crash', detail }, performance.now() - this.#lastEndAt)
    this.#released(this.#sent.size)
    this.#listener.closed()
  }
}
