import { closeSync, ftruncateSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { IGNORE, OK, type Outcome, RETRY } from '../../task/outcome.js'

/**
 * A page of memory that a host shares with its worker, and that outlives it: one byte a task, at its number modulo
 * `SLOTS`. So it costs a host next to nothing to say what it starts and what came of it, and when it dies, its worker
 * knows to the task what had ended, what ran, and what had not begun.
 */
const SLOTS = 4032
const BYTES = 4096
/**
 * Not 0: the tasks that are not started are not to be. The host marks a start before it looks at the flag, and the
 * worker sets the flag before it looks at the marks: one of the two sees the other.
 */
const RECALL_FLAG = SLOTS
/** Not 0: the worker has taken output of the host that is not marked (host-output.ts). */
const OUTPUT_FLAG = SLOTS + 1
/** With a result: a mark stands behind what the task printed. */
const PRINTED = 8

const NOT_STARTED = 0
export const STARTED = 1
/** From here on it has ended. */
const RESULTS: ReadonlyArray<Outcome | 'error' | undefined> = [
  undefined,
  undefined,
  OK,
  RETRY,
  IGNORE,
  'error',
]

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

  /** Looks anew. */
  refresh(): void {
    readSync(this.fd, this.#view, 0, BYTES, 0)
  }

  /** What it was at the last look. */
  stateOf(number: number): number {
    return this.#view[number % SLOTS] ?? NOT_STARTED
  }

  /** `error`: what it says is in a frame. */
  resultOf(number: number): Outcome | 'error' | undefined {
    return RESULTS[this.stateOf(number) & ~PRINTED]
  }

  hasPrinted(number: number): boolean {
    return (this.stateOf(number) & PRINTED) !== 0
  }

  /** Makes room for the tasks that will have these slots next. */
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

/** In memory where there is such a place: it is written to for each task. */
/** A file that nobody can open by a name. */
export function openUnnamed(): number {
  for (const base of ['/dev/shm', tmpdir()])
    try {
      const directory = mkdtempSync(join(base, 'spoold-host-'))
      try {
        return openSync(join(directory, 'page'), 'wx+', 0o600)
      } finally {
        rmSync(directory, { recursive: true, force: true })
      }
    } catch (error) {
      if (base === tmpdir()) throw error
    }
  throw new Error('unreachable')
}
