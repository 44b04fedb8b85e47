import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { IGNORE, OK, type Outcome, RETRY } from '../../base/task/outcome.js'

/**
 * A page of memory that a host shares with its worker, and that outlives both: one byte per task, at its number modulo `SLOTS`.
 * It costs a host next to nothing to record that a task started and how it ended. When the host dies, its worker knows for each task
 * whether it had ended, was running, or had not begun; when the worker dies, its master does, which reads there by what numbers it
 * has given the tasks: many are sent to a host together, and have marks in their files before the first of them begins.
 */
const SLOTS = 4032
const STATE_BYTES = 4096
/**
 * Not 0: tasks that have not started must not start. The host marks a start before it reads the flag, and whoever sets the flag does
 * so before reading the marks, so at least one of them sees the other's write.
 */
const RECALL_FLAG = SLOTS
/** Not 0: the worker has read output of the host that is not marked (runtime/worker/hosts/host-output.ts). */
const OUTPUT_FLAG = RECALL_FLAG + 1
/** For each slot the master's number of the task that has it, plus one. */
const NUMBER_BYTES = 4
const PAGE_BYTES = STATE_BYTES + SLOTS * NUMBER_BYTES

/** The states of a slot: it has not started, or its end was read; it has started; more: how it has ended. */
const NOT_STARTED = 0
const STARTED = 1
/** Added to a result: there is a mark after the output of the task. */
const PRINTED = 8
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

/** The page of one host, as its worker has it. */
export class Page {
  static readonly BYTES = PAGE_BYTES
  readonly fd: number
  readonly #view = Buffer.alloc(STATE_BYTES)

  /** @param fd has so many bytes, which are 0 */
  constructor(fd: number) {
    this.fd = fd
  }

  /** Reads the page again. */
  refresh(): void {
    readSync(this.fd, this.#view, 0, STATE_BYTES, 0)
  }

  /** Whether the task has begun at all, as of the last `refresh`. */
  hasBegun(number: number): boolean {
    return this.#stateOf(number) !== NOT_STARTED
  }

  isRunning(number: number): boolean {
    return this.#stateOf(number) === STARTED
  }

  /** `error`, `answer`: a frame carries it. */
  resultOf(number: number): Outcome | 'error' | 'answer' | undefined {
    return resultOfState(this.#stateOf(number))
  }

  hasPrinted(number: number): boolean {
    return (this.#stateOf(number) & PRINTED) !== 0
  }

  #stateOf(number: number): number {
    return this.#view[number % SLOTS] ?? NOT_STARTED
  }

  /** Call it before they are sent. @param first the host's number of the first of them @param numbers the master's */
  note(first: number, numbers: readonly number[]): void {
    const noted = Uint32Array.from(numbers, number => number + 1)
    const from = first % SLOTS
    const upToEnd = noted.subarray(0, SLOTS - from)
    const rest = noted.subarray(upToEnd.length)
    writeSync(this.fd, upToEnd, 0, upToEnd.byteLength, STATE_BYTES + from * NUMBER_BYTES)
    if (rest.length > 0) writeSync(this.fd, rest, 0, rest.byteLength, STATE_BYTES)
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

/** The page of a host as its master has it, which opens it through the worker: memory that has no name. Linux only. */
export class SharedPage {
  readonly #fd: number

  /**
   * @param fd of the worker
   * @throws if it cannot be opened, or is something else by now
   */
  constructor(pid: number, fd: number) {
    this.#fd = openSync(`/proc/${pid}/fd/${fd}`, constants.O_RDWR)
    const stats = fstatSync(this.#fd)
    if (stats.isFile() && stats.nlink === 0 && stats.size === PAGE_BYTES) return
    closeSync(this.#fd)
    throw new Error(`descriptor ${fd} is not the page of a host`)
  }

  /** From now on the host begins none that it has not begun. @returns the master's number of the one that it runs */
  stop(): number | undefined {
    writeSync(this.#fd, FLAG, 0, 1, RECALL_FLAG)
    const page = Buffer.alloc(PAGE_BYTES)
    readSync(this.#fd, page, 0, PAGE_BYTES, 0)
    const slot = page.subarray(0, SLOTS).indexOf(STARTED)
    return slot < 0 ? undefined : page.readUInt32LE(STATE_BYTES + slot * NUMBER_BYTES) - 1
  }

  close(): void {
    closeSync(this.#fd)
  }
}
