import type { MasterMessage, WorkerMessage } from '../ipc/messages.js'
import type { Answer, Question } from './questions.js'
import { WorkerChildren } from './worker-children.js'

/** What workers say on behalf of handlers in other processes. */
type HostMessage = Extract<
  WorkerMessage,
  { type: 'ask' | 'deadline' | 'child-started' | 'child-ended' | 'host-died' | 'host-revived' | 'stored' }
>

export interface HostEventListener {
  /** The worker may be given something again. */
  opened(): void
  /** What runs has set itself another deadline. */
  deadline(): void
  hostDied(pid: number, detail: string): void
  stored(path: string, bytes: number): void
}

interface HostMessagesOptions {
  readonly listener: HostEventListener
  answer(question: Question): Answer
  send(message: MasterMessage): void
}

/** The part of a worker, as the master sees it, that is about processes of the worker's own. */
export class HostMessages {
  readonly #options: HostMessagesOptions
  readonly #children = new WorkerChildren()
  /** Of what runs, when it asked for one (`uwsgi.set_user_harakiri`). */
  #deadlineAt = Number.POSITIVE_INFINITY
  /** Interpreters that died and are not replaced yet. */
  #dead = 0

  constructor(options: HostMessagesOptions) {
    this.#options = options
  }

  /** An interpreter of the worker is being replaced: what it is given would wait for that. */
  get areDown(): boolean {
    return this.#dead > 0
  }

  /** On the clock of `performance.now()`. */
  get deadlineAt(): number {
    return this.#deadlineAt
  }

  /** @param pid the worker's */
  hear(message: HostMessage, pid: number): void {
    const { listener, answer, send } = this.#options
    switch (message.type) {
      case 'ask':
        return send(answer(message))
      case 'deadline':
        this.#deadlineAt =
          message.afterMs === 0 ? Number.POSITIVE_INFINITY : performance.now() + message.afterMs
        return listener.deadline()
      case 'child-started':
        return this.#children.started(message.pid)
      case 'child-ended':
        return this.#children.ended(message.pid)
      case 'host-died':
        this.#dead++
        return listener.hostDied(pid, message.detail)
      case 'host-revived':
        this.#dead--
        return listener.opened()
      case 'stored':
        return listener.stored(message.path, message.bytes)
    }
  }

  /** What had set itself a deadline has ended. */
  taskEnded(): void {
    this.#deadlineAt = Number.POSITIVE_INFINITY
  }

  workerExited(): void {
    this.#children.kill()
  }
}
