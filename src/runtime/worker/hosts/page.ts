import { closeSync, ftruncateSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crypto } from '../../../base/on-demand.js'
import { IGNORE, OK, type Outcome, RETRY } from '../../../base/task/outcome.js'

/**
 * A page of memory that a host shares with its worker, and that outlives the host: one byte per task, at its number
 * modulo `SLOTS`. It costs a host next to nothing to record that a task started and how it ended. When the host dies,
 * its worker knows for each task whether it had ended, was running, or had not begun.
 */
const SLOTS = 4032
const BYTES = 4096
/**
 * Not 0: tasks that have not started must not start. The host marks a start before it reads the flag, and the worker
 * sets the flag before it reads the marks, so at least one of them sees the other's write.
 */
const RECALL_FLAG = SLOTS
/** Not 0: the worker has read output of the host that is not marked (host-output.ts). */
const OUTPUT_FLAG = SLOTS + 1
/** Added to a result: there is a mark after the output of the task. */
const PRINTED = 8

const NOT_STARTED = 0
export const STARTED = 1
/** By state; from index 2 on, the task has ended. */
const RESULTS: ReadonlyArray<Outcome | 'error' | 'answer' | undefined> = [
  undefined,
  undefined,
  OK,
  RETRY,
  IGNORE,
  'error',
  'answer',
]

export function resultOfState(state: number): Outcome | 'error' | 'answer' | undefined {
  return RESULTS[state & ~PRINTED]
}

const ZEROS = Buffer.alloc(SLOTS)
const FLAG = Buffer.of(1)
const NO_FLAG = Buffer.of(0)

export class Page {
  readonly fd: number
  readonly #view = Buffer.alloc(BYTES)

  constructor() {
    this.fd = openUnnamed()
    ftruncateSync(this.fd, BYTES)
  }

  /** Reads the page again. */
  refresh(): void {
    readSync(this.fd, this.#view, 0, BYTES, 0)
  }

  /** The state as of the last `refresh`. */
  stateOf(number: number): number {
    return this.#view[number % SLOTS] ?? NOT_STARTED
  }

  /** `error`, `answer`: a frame carries it. */
  resultOf(number: number): Outcome | 'error' | 'answer' | undefined {
    return resultOfState(this.stateOf(number))
  }

  hasPrinted(number: number): boolean {
    return (this.stateOf(number) & PRINTED) !== 0
  }

  /** Clears slots for later tasks. */
  clear(first: number, count: number): void {
    const from = first % SLOTS
    const upToEnd = Math.min(count, SLOTS - from)
    if (upToEnd > 0) writeSync(this.fd, ZEROS, 0, upToEnd, from)
    if (count > upToEnd) writeSync(this.fd, ZEROS, 0, count - upToEnd, 0)
  }

  recall(): void {
    writeSync(this.fd, FLAG, 0, 1, RECALL_FLAG)
  }

  setOutputFlag(isSet: boolean): void {
    writeSync(this.fd, isSet ? FLAG : NO_FLAG, 0, 1, OUTPUT_FLAG)
  }

  close(): void {
    closeSync(this.fd)
  }
}

/** Opens a file that has no name. It is in memory if possible, because it is written for each task. */
export function openUnnamed(): number {
  const name = `spoold-host-${crypto().randomUUID()}`
  try {
    return openAndUnlink(join('/dev/shm', name))
  } catch {
    return openAndUnlink(join(tmpdir(), name))
  }
}

function openAndUnlink(path: string): number {
  const fd = openSync(path, 'wx+', 0o600)
  unlinkSync(path)
  return fd
}
