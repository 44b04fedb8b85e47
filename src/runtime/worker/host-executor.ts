import { Queue } from '../../base/queue.js'
import { fromThrown } from '../../base/task/answer.js'
import { UNBEGUN } from '../../base/task/outcome.js'
import type { Executor, ExecutorListener } from './executor.js'
import { loadBody } from './hosts/frames.js'
import type { Host } from './hosts/host.js'
import { REPORT_WITHIN_MS } from './report-buffer.js'
import type { Run } from './run.js'

/** How many messages the host has at a time, so that it runs one while the next is prepared. */
const MESSAGES_AHEAD = 2

/** Runs tasks in one host, which takes them in batches and runs them one after the other. */
export class HostExecutor implements Executor {
  readonly slots = 1
  /** Many tasks share a message and a context switch, which makes both cheap. */
  readonly pageTasks = 128
  readonly #host: Host
  readonly #listener: ExecutorListener
  /** The runs that were sent to the host, oldest first. */
  readonly #sent = new Queue<Run>()
  #lastEndAt = 0
  /** Called when this executor takes another page. */
  #hasRoom = () => {}
  #ticker: NodeJS.Timeout | undefined

  constructor(host: Host, listener: ExecutorListener) {
    this.#host = host
    this.#listener = listener
    host.attach({
      progress: () => this.#progress(),
      recalled: count => this.#released(count),
      died: detail => this.#died(detail),
      revived: () => host.tellPage(),
    })
    host.tellPage()
  }

  get isOpen(): boolean {
    return this.#host.isOpen
  }

  running(): Run | undefined {
    this.#settleEnded()
    return this.#sent.peek()
  }

  /** Sends a page to the host. A body that cannot be read, or that is too large for a host, fails only its own task. */
  run(page: readonly Run[], now: number): Promise<void> | undefined {
    // it is not known yet whether the first task begins, because it may be handed back
    if (this.#sent.size === 0) this.#lastEndAt = now
    const loaded = page.filter(run => this.#load(run))
    if (loaded.length === 0) return undefined
    for (const run of loaded) {
      run.startedAt = now
      this.#sent.push(run)
    }
    this.#host.process.send(
      loaded.map(({ claim }) => claim),
      loaded.map(({ number }) => number),
    )
    this.#ticker ??= setInterval(() => this.#tick(), REPORT_WITHIN_MS)
    if (this.#takesAhead) return undefined
    return new Promise(resolve => {
      this.#hasRoom = resolve
    })
  }

  get #takesAhead(): boolean {
    return this.#host.process.messages < MESSAGES_AHEAD
  }

  #load(run: Run): boolean {
    try {
      if (run.claim.bodyBytes > 0) loadBody(run.claim)
      return true
    } catch (error) {
      void this.#listener.ended(run, fromThrown(error), 0)
      return false
    }
  }

  recall(): void {
    if (this.#sent.size > 1 && !this.#host.process.isRecalling) {
      const left = this.#host.process.recall()
      this.#released(this.#sent.size - left)
    }
  }

  /** Ends every run that has not ended as not begun, because it is unknown whose code threw. */
  fault(): boolean {
    if (this.#sent.size > 0) this.#settleEnded() // a dead host has no tasks and no page
    this.#released(this.#sent.size)
    return false
  }

  /** Collects what a host has done while it says nothing, and reports the start of a task that takes long. */
  #tick(): void {
    if (this.#sent.size === 0) {
      clearInterval(this.#ticker)
      this.#ticker = undefined
      return
    }
    this.#host.process.listen()
    this.#progress()
    const head = this.#sent.peek()
    if (head !== undefined && this.#host.process.hasStarted) this.#listener.announce(head)
  }

  #progress(): void {
    this.#settleEnded()
    this.#pageEnded()
  }

  #pageEnded(): void {
    this.#listener.progressed()
    if (this.#takesAhead) this.#hasRoom()
  }

  #settleEnded(): void {
    const ended = this.#host.process.collect()
    const now = performance.now()
    // if several tasks ended together, the run time of each is unknown: it is shared evenly
    const ranMs = (now - this.#lastEndAt) / ended.length
    if (ended.length > 0) this.#lastEndAt = now
    for (const { outcome, printed } of ended) {
      this.#host.print(this.#sent.peek(), printed)
      const run = this.#sent.pop()
      if (run !== undefined) void this.#listener.ended(run, outcome, ranMs)
    }
    const printed = this.#host.process.takePrinted()
    this.#host.print(this.#host.process.hasStarted ? this.#sent.peek() : undefined, printed)
  }

  /** Ends the last `count` tasks as not begun, because the host will not start them. */
  #released(count: number): void {
    const all = [...this.#sent]
    this.#sent.clear()
    const kept = all.length - count
    for (const run of all.slice(0, kept)) this.#sent.push(run)
    for (const run of all.slice(kept)) void this.#listener.ended(run, UNBEGUN, 0)
    this.#pageEnded()
  }

  #died(detail: string): boolean {
    this.#settleEnded()
    const ran = this.#host.process.hasStarted ? this.#sent.pop() : undefined
    if (ran !== undefined)
      void this.#listener.ended(ran, { kind: 'crash', detail }, performance.now() - this.#lastEndAt)
    this.#released(this.#sent.size)
    this.#hasRoom()
    return ran !== undefined
  }
}
