import type { MarksCleared, MasterMessage, WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import type { Answer, Question } from './questions.js'

/** How the other end of a port ended. */
export interface PortExit {
  readonly code: number | null
  readonly signal: string | null
  /** Why it never began. */
  readonly unforked?: string
}

/** The master's end of the line to one worker, wherever that lives. */
export interface WorkerPort {
  /** 0: there is no process. */
  readonly pid: number
  /** Resolves once the worker has ended and its last message was heard. */
  readonly whenExited: Promise<PortExit>
  /** To be called at once: what is said before is lost. */
  listen(hear: (message: WorkerMessage | MarksCleared) => void): void
  /** Once the worker has ended, what is sent is dropped. */
  send(message: MasterMessage): void
  /** Ends the worker now, whatever it does. */
  kill(): void
}

/** How a worker is started. */
export interface SpawnOptions {
  readonly worker: WorkerOptions
  /** Starts whatever it lives in. @throws where there is no memory for another process */
  openPort(): WorkerPort
  /** What handlers ask of the master. */
  answer(question: Question): Answer
}
