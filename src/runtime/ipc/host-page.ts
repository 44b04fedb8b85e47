import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { IGNORE, OK, type Outcome, RETRY } from '../../base/task/outcome.js'

/**
 * A page of memory that a host shares with its worker, and that outlives both. It has one byte per task, at the host's number of
 * the task modulo `SLOTS`. A host records there, at next to no cost, that a task started and how it ended. When the host dies,
 * its worker knows for each task whether it had ended, was running, or had not begun. When the worker dies, its master knows the
 * same, because the page also has the master's numbers of the tasks. The marks in the files do not tell: many tasks are sent to a
 * host together, and are marked before the first of them begins.
 */
const SLOTS = 4032
const STATE_BYTES = 4096
/**
 * The place of a flag. While the flag is not 0, tasks that have not started must not start. The host marks a start before it
 * reads the flag, and the process that sets the flag reads the marks after that. So at least one sees the other's write.
 */
const RECALL_FLAG = SLOTS
/**
 * The place of a flag. It is not 0 while the worker has read output of the host that is not marked
 * (runtime/worker/hosts/host-output.ts).
 */
const OUTPUT_FLAG = RECALL_FLAG + 1
/** The bytes per slot for the master's number of the task that has the slot, plus one. */
const NUMBER_BYTES = 4
const PAGE_BYTES = STATE_BYTES + SLOTS * NUMBER_BYTES

/** States of a slot. 0: its task has not started, or its end was read. 1: its task has started. From 2 on: its task has ended. */
const NOT_STARTED = 0
const STARTED = 1
/** Added to the state of an ended task whose output is followed by a mark. */
const PRINTED = 8
/** How a task has ended, by the state of its slot. */
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

/** The page of one host, as the worker uses it. */
export class Page {
  static readonly BYTES = PAGE_BYTES
  readonly fd: number
  readonly #view = Buffer.alloc(STATE_BYTES)

  /** @param fd a file of `bytes` zero bytes */
  constructor(fd: number) {
    this.fd = fd
  }

  /** Reads the page again. */
  refresh(): void {
    readSync(this.fd, this.#view, 0, STATE_BYTES, 0)
  }

  /** True if the task had begun, or also ended, at the last `refresh`. */
  hasBegun(number: number): boolean {
    return this.#stateOf(number) !== NOT_STARTED
  }

  isRunning(number: number): boolean {
    return this.#stateOf(number) === STARTED
  }

  /** Returns how the task has ended. `error`, `answer`: a frame carries the details. */
  resultOf(number: number): Outcome | 'error' | 'answer' | undefined {
    return resultOfState(this.#stateOf(number))
  }

  hasPrinted(number: number): boolean {
    return (this.#stateOf(number) & PRINTED) !== 0
  }

  #stateOf(number: number): number {
    return this.#view[number % SLOTS] ?? NOT_STARTED
  }

  /**
   * Writes down the master's numbers of tasks. Call it before the tasks are sent.
   *
   * @param first the host's number of the first of these tasks
   * @param numbers the master's numbers
   */
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

/** The page of a host, as the master uses it. It has no name, so the master opens it through the worker. Linux only. */
export class SharedPage {
  readonly #fd: number

  /**
   * @param pid the worker
   * @param fd the descriptor of the page in the worker
   * @throws if the page cannot be opened, or if the descriptor is something else by now
   */
  constructor(pid: number, fd: number) {
    this.#fd = openSync(`/proc/${pid}/fd/${fd}`, constants.O_RDWR)
    const stats = fstatSync(this.#fd)
    if (stats.isFile() && stats.nlink === 0 && stats.size === PAGE_BYTES) return
    closeSync(this.#fd)
    throw new Error(`descriptor ${fd} is not the page of a host`)
  }

  /** Stops the host from beginning any other task. @returns the master's number of the task that it runs, if any */
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
