import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs'

/**
 * A page of memory that a host shares with its worker, and that outlives both: one byte per task, at its number modulo `HOST_SLOTS`.
 * It costs a host next to nothing to record that a task started and how it ended. When the host dies, its worker knows for each task
 * whether it had ended, was running, or had not begun; when the worker dies, its master does, which reads there by what numbers it
 * has given the tasks: many are sent to a host together, and have marks in their files before the first of them begins.
 */
export const HOST_SLOTS = 4032
/** Of a slot; 0: it has not started, or its end was read; more: how it has ended. */
export const HOST_STARTED = 1
export const HOST_STATE_BYTES = 4096
/**
 * Not 0: tasks that have not started must not start. The host marks a start before it reads the flag, and whoever sets the flag does
 * so before reading the marks, so at least one of them sees the other's write.
 */
export const RECALL_FLAG = HOST_SLOTS
const FLAG = Buffer.of(1)

/** For each slot the master's number of the task that has it, plus one. */
const NUMBER_BYTES = 4
export const HOST_PAGE_BYTES = HOST_STATE_BYTES + HOST_SLOTS * NUMBER_BYTES

/** Call it before they are sent. @param first the host's number of the first of them @param numbers the master's */
export function noteNumbers(fd: number, first: number, numbers: readonly number[]): void {
  const noted = Uint32Array.from(numbers, number => number + 1)
  const from = first % HOST_SLOTS
  const upToEnd = noted.subarray(0, HOST_SLOTS - from)
  const rest = noted.subarray(upToEnd.length)
  writeSync(fd, upToEnd, 0, upToEnd.byteLength, HOST_STATE_BYTES + from * NUMBER_BYTES)
  if (rest.length > 0) writeSync(fd, rest, 0, rest.byteLength, HOST_STATE_BYTES)
}

export function setRecallFlag(fd: number): void {
  writeSync(fd, FLAG, 0, 1, RECALL_FLAG)
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
    if (stats.isFile() && stats.nlink === 0 && stats.size === HOST_PAGE_BYTES) return
    closeSync(this.#fd)
    throw new Error(`descriptor ${fd} is not the page of a host`)
  }

  /** From now on the host begins none that it has not begun. @returns the master's number of the one that it runs */
  stop(): number | undefined {
    setRecallFlag(this.#fd)
    const page = Buffer.alloc(HOST_PAGE_BYTES)
    readSync(this.#fd, page, 0, HOST_PAGE_BYTES, 0)
    const slot = page.subarray(0, HOST_SLOTS).indexOf(HOST_STARTED)
    return slot < 0 ? undefined : page.readUInt32LE(HOST_STATE_BYTES + slot * NUMBER_BYTES) - 1
  }

  close(): void {
    closeSync(this.#fd)
  }
}
