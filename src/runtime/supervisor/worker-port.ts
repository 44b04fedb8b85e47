import { stackOf } from '../../base/task/failure-text.js'
import type { Ref, TaskName } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { SlotWish } from '../../base/task/terms.js'
import { NoFrame, WorkerDecoder } from '../ipc/frames.js'
import type { Marks } from '../ipc/marks.js'
import type { MasterMessage, WorkerMessage, WorkerOptions } from '../ipc/messages.js'

/** How the other end of a port ended. */
export interface PortExit {
  readonly code: number | null
  readonly signal: string | null
  /** Why the other end never started; absent: it did. */
  readonly unforked?: string
}

/** Receives what comes from a worker. */
export interface PortListener {
  heard(message: WorkerMessage): void
  /** The last chunk cannot be from the worker itself. Nothing more is passed on. */
  garbled(why: string): void
}

/** The master's end of the connection to one worker, wherever the worker runs. */
export interface WorkerPort {
  /** The process that the worker is in. */
  readonly pid: number
  readonly hasOwnProcess: boolean
  /** What the worker does with the tasks that it is given. */
  readonly marks: Marks
  /** Resolves once the worker has ended and its last message was delivered. */
  readonly whenExited: Promise<PortExit>
  /** Call it at once: messages that arrive earlier are lost. */
  listen(listener: PortListener): void
  /** Messages that are sent after the worker has ended are dropped. */
  send(message: MasterMessage): void
  /** Ends the worker now, whatever it is doing. */
  kill(): void
}

/**
 * Passes on messages until the first chunk that cannot be one of ours, which ends that worker. Handlers can reach the channel of
 * their worker, so anything can come through it.
 */
export function guarded(token: number, { heard, garbled }: PortListener): (chunk: unknown) => void {
  const decoder = new WorkerDecoder(token)
  let isTrusted = true
  return chunk => {
    if (!isTrusted) return
    try {
      if (!(chunk instanceof Uint8Array)) throw new NoFrame('it is no frame')
      const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk) // a thread may share the memory, so it is copied
      for (const message of decoder.push(bytes)) heard(message)
    } catch (thrown) {
      isTrusted = false
      garbled(thrown instanceof NoFrame ? thrown.message : stackOf(thrown))
    }
  }
}

export type Question = Extract<WorkerMessage, { type: 'ask' }>
export type Answer = Extract<MasterMessage, { type: 'answer' }>

/** How a worker is started. */
export interface SpawnOptions {
  readonly worker: WorkerOptions
  /** Starts the process, or whatever the worker runs in. @throws Error when the system has no memory for another process */
  openPort(): WorkerPort
  /** As `openPort`, for the process aside, which acts on task files and runs no tasks; default: a worker does that, too. */
  openAside?(): WorkerPort
  /** Answers what handlers ask the master. */
  answer(question: Question): Answer
}

export interface Reported {
  /** Runs that ended with SPOOL_OK, reported without their times because no listener wants single tasks. */
  readonly done: readonly Ref[]
  /** The names of all such runs, as people know them. */
  readonly doneNames: readonly TaskName[]
  /** All other reports. */
  readonly reports: readonly Report[]
  /** Reports of tasks of which the feed knows that they are over. */
  readonly late: readonly Report[]
  /** The names of the reported tasks whose start was announced before. */
  readonly known: ReadonlySet<TaskName>
  /** How many more tasks of a name could follow those that the worker runs. */
  readonly wishes: readonly SlotWish[]
}

/** How a worker ended. */
export interface Exit extends PortExit {
  /** The worker was asked to exit; it asked for a replacement; it said what is wrong with it; or the reason is unknown. */
  readonly why: 'asked' | 'recycled' | 'faulted' | 'failed'
}
