import { quietly } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { STARTED, statOf } from '../../system/process-usage.js'
import { SharedPage } from '../ipc/host-page.js'
import type { MasterMessage, WorkerMessage } from '../ipc/messages.js'
import type { Answer, Question } from './questions.js'

/** Messages that workers send on behalf of handlers in other processes. */
type HostMessage = Extract<
  WorkerMessage,
  {
    type: 'ask' | 'deadline' | 'child-started' | 'child-ended' | `host-${string}` | 'stored'
  }
>

export interface HostListener {
  /** The worker can take tasks again. */
  opened(): void
  /** The running task has set itself another deadline. */
  deadline(): void
}

interface HostMessagesOptions {
  readonly spool: string
  readonly listener: HostListener
  readonly events: Emitter
  answer(question: Question): Answer
  send(message: MasterMessage): void
}

/** The master's view of a worker's own child processes. */
export class HostMessages {
  readonly #options: HostMessagesOptions
  /**
   * Programs that it runs for its tasks, each the leader of its own process group, and when each has started. When the worker is killed,
   * they have to be killed before its tasks are given to others, or one would run twice at once.
   */
  readonly #children = new Map<number, string | undefined>()
  /** The deadline that the running task set for itself (`uwsgi.set_user_harakiri`). */
  #deadlineAt = Number.POSITIVE_INFINITY
  #page: SharedPage | undefined
  /** What its interpreter was running when it exited; undefined: that is not known. */
  #ran: { readonly number: number | undefined } | undefined
  /** How many interpreters have died and are not replaced yet. */
  #dead = 0

  constructor(options: HostMessagesOptions) {
    this.#options = options
  }

  /**
   * True while an interpreter of the worker is being replaced: a task given to the worker would have to wait for
   * that.
   */
  get areDown(): boolean {
    return this.#dead > 0
  }

  /** On the clock of `performance.now()`. */
  get deadlineAt(): number {
    return this.#deadlineAt
  }

  /** @param pid of the worker */
  hear(message: HostMessage, pid: number): void {
    const { spool, listener, events, answer, send } = this.#options
    switch (message.type) {
      case 'ask':
        return send(answer(message))
      case 'deadline':
        this.#deadlineAt =
          message.afterMs === 0 ? Number.POSITIVE_INFINITY : performance.now() + message.afterMs
        return listener.deadline()
      case 'child-started':
        return void this.#children.set(message.pid, statOf(message.pid)[STARTED])
      case 'child-ended':
        return void this.#children.delete(message.pid)
      case 'host-page':
        return this.#openPage(pid, message.fd)
      case 'host-died':
        this.#dead++
        return events.emit('host-died', { spool, pid, detail: message.detail })
      case 'host-revived':
        this.#dead--
        return listener.opened()
      case 'stored':
        for (const { path, bytes } of message.tasks) events.emit('request-stored', { path, bytes })
    }
  }

  /** Clears the deadline that the task had set for itself. */
  taskEnded(): void {
    this.#deadlineAt = Number.POSITIVE_INFINITY
  }

  workerExited(): void {
    this.#killChildren()
    const page = this.#page
    if (page !== undefined) this.#ran = quietly(() => ({ number: page.stop() }))
    this.#closePage()
  }

  /** Of a worker that has exited: whether its interpreter is known not to have been running this task. */
  hasNotRun(number: number): boolean {
    return this.#ran !== undefined && this.#ran.number !== number
  }

  #killChildren(): void {
    for (const [pid, startTime] of this.#children)
      if (startTime !== undefined && startTime === statOf(pid)[STARTED])
        try {
          process.kill(-pid, 'SIGKILL')
        } catch {}
    this.#children.clear()
  }

  #openPage(pid: number, fd: number): void {
    this.#closePage()
    this.#page = quietly(() => new SharedPage(pid, fd)) // not Linux, or it has died
  }

  #closePage(): void {
    this.#page?.close()
    this.#page = undefined
  }
}
