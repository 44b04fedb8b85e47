import { stackOf } from '../../base/task/stack.js'
import type { AsideReply, MasterMessage, WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import type { Answer, Question } from './questions.js'

/** How the other end of a port ended. */
export interface PortExit {
  readonly code: number | null
  readonly signal: string | null
  /** Why it never started. */
  readonly unforked?: string
}

/** The master's end of the connection to one worker, wherever that runs. */
export interface WorkerPort {
  /** Of the process that the worker is in. */
  readonly pid: number
  readonly hasOwnProcess: boolean
  /** Resolves once the worker has ended and its last message was delivered. */
  readonly whenExited: Promise<PortExit>
  /** Call it at once: messages that come before are lost. */
  listen(hear: Hear): void
  /** Messages that are sent after the worker has ended are dropped. */
  send(message: MasterMessage): void
  /** Ends the worker now, whatever it is doing. */
  kill(): void
}

type Hear = (message: WorkerMessage | AsideReply) => void

/**
 * Handlers can reach the channel of their worker, so anything can come through it. What cannot be dealt with ends that worker, and
 * nothing more is heard of it.
 */
export function guarded(port: Pick<WorkerPort, 'kill'>, hear: Hear): (value: unknown) => void {
  let isTrusted = true
  return value => {
    if (!isTrusted) return
    try {
      hear(messageIn(value))
    } catch (thrown) {
      isTrusted = false
      hear({ type: 'unfit', error: `what came from it cannot be dealt with: ${stackOf(thrown)}` })
      port.kill()
    }
  }
}

function messageIn(value: unknown): WorkerMessage | AsideReply {
  if (typeof value === 'object' && value !== null && 'type' in value)
    return value as WorkerMessage | AsideReply
  throw new Error(`expected a message of a worker, got ${value === null ? 'null' : typeof value}`)
}

/** How a worker is started. */
export interface SpawnOptions {
  readonly worker: WorkerOptions
  /** Starts the process, or whatever the worker runs in. @throws when the system has no memory for another process */
  openPort(): WorkerPort
  /** Answers what handlers ask the master. */
  answer(question: Question): Answer
}
