import { closeSync, ftruncateSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crypto } from '../../../base/on-demand.js'
import { IGNORE, OK, type Outcome, RETRY } from '../../../base/task/outcome.js'
import {
  HOST_PAGE_BYTES,
  HOST_SLOTS,
  HOST_STATE_BYTES,
  noteNumbers,
  RECALL_FLAG,
  setRecallFlag,
} from '../../ipc/host-page.js'

/** Not 0: the worker has read output of the host that is not marked (host-output.ts). */
const OUTPUT_FLAG = RECALL_FLAG + 1
/** Added to a result: there is a mark after the output of the task. */
const PRINTED = 8

const NOT_STARTED = 0
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

const ZEROS = Buffer.alloc(HOST_SLOTS)
const FLAG = Buffer.of(1)
const NO_FLAG = Buffer.of(0)

/** The page of one host, as its worker has it. @see runtime/ipc/host-page.ts */
export class Page {
  readonly fd: number
  readonly #view = Buffer.alloc(HOST_STATE_BYTES)

  constructor() {
    this.fd = openUnnamed()
    ftruncateSync(this.fd, HOST_PAGE_BYTES)
  }

  /** Reads the page again. */
  refresh(): void {
    readSync(this.fd, this.#view, 0, HOST_STATE_BYTES, 0)
  }

  /** The state as of the last `refresh`. */
  stateOf(number: number): number {
    return this.#view[number % HOST_SLOTS] ?? NOT_STARTED
  }

  /** `error`, `answer`: a frame carries it. */
  resultOf(number: number): Outcome | 'error' | 'answer' | undefined {
    return resultOfState(this.stateOf(number))
  }

  hasPrinted(number: number): boolean {
    return (this.stateOf(number) & PRINTED) !== 0
  }

  /** @param first the host's number of the first of them @param numbers the master's */
  note(first: number, numbers: readonly number[]): void {
    noteNumbers(this.fd, first, numbers)
  }

  /** Clears slots for later tasks. */
  clear(first: number, count: number): void {
    const from = first % HOST_SLOTS
    const upToEnd = Math.min(count, HOST_SLOTS - from)
    if (upToEnd > 0) writeSync(this.fd, ZEROS, 0, upToEnd, from)
    if (count > upToEnd) writeSync(this.fd, ZEROS, 0, count - upToEnd, 0)
  }

  recall(): void {
    setRecallFlag(this.fd)
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
