/** The worker does not have the task, or its report was read. */
const FREE = 0
/** The worker may take the task, and the master may withdraw it: whoever changes this state first has it. */
const GIVEN = 1
/** The worker claims the task, or has it claimed, and has not begun it. */
const TAKEN = 2
/** The task's file may be marked as begun. */
const BEGUN = 3
/** The handler was called. An interpreter's tasks stay begun. */
const RUNNING = 4
/** The run has ended, and its outcome is being stored, which takes long where Redis is away or busy. */
const SETTLING = 5
/** The task is done, and its file is removed. Its report is still to come. */
const DONE = 6
/** The task did not run, or is kept for another run. Its report is still to come. */
const KEPT = 7

/** The most tasks that a worker may have. A later task with the same cell gets another number. */
const CELLS = 65_536

interface Mapping {
  readonly memory: ArrayBufferLike
  unmap?(): void
}

/**
 * What has become of the tasks that a worker was given, in memory that it shares with its master: one byte per task, at its
 * number modulo `CELLS`. So the master knows which tasks a worker has begun that is blocked, stopped or dead, and takes back
 * the others without asking it.
 *
 * Where no memory can be shared, each side has bytes of its own: the worker may take all tasks that it was given, and to the
 * master all of them are begun until the worker reports them.
 */
export class Marks {
  static readonly BYTES = CELLS
  readonly isShared: boolean
  #cells: Uint8Array
  #unmap: () => void

  /** @param mapping memory of `BYTES` zero bytes; absent: none can be shared */
  constructor(mapping?: Mapping) {
    this.isShared = mapping !== undefined
    this.#cells = new Uint8Array(mapping?.memory ?? new ArrayBuffer(CELLS))
    this.#unmap = () => mapping?.unmap?.()
  }

  // The master's part

  /** Gives a task the first number from this one on whose cell is free. */
  give(from: number): number {
    for (let number = from; number < from + CELLS; number++)
      if (this.#turn(number, FREE, GIVEN)) return number
    this.#put(from, GIVEN) // code of users has written to all of its own marks
    return from
  }

  /** @returns true if the worker has not taken the task, and cannot take it any more */
  withdraw(number: number): boolean {
    return this.isShared && this.#turn(number, GIVEN, FREE)
  }

  free(number: number): void {
    this.#put(number, FREE)
  }

  /** True if the worker may have claimed the task. */
  isTaken(number: number): boolean {
    return !this.isShared || this.#at(number) >= TAKEN
  }

  /** True if the worker may have begun the task and has not settled it. */
  isBegun(number: number): boolean {
    if (!this.isShared) return true
    const state = this.#at(number)
    return state >= BEGUN && state <= SETTLING
  }

  isRunning(number: number): boolean {
    return this.isShared && this.#at(number) === RUNNING
  }

  isSettling(number: number): boolean {
    return this.isShared && this.#at(number) === SETTLING
  }

  isDone(number: number): boolean {
    return this.isShared && this.#at(number) === DONE
  }

  isKept(number: number): boolean {
    return this.isShared && this.#at(number) === KEPT
  }

  /** Call it once the worker has exited: what it has left can still be read. */
  close(): void {
    this.#cells = this.#cells.slice()
    this.#unmap()
    this.#unmap = () => {}
  }

  // The worker's part

  /** @returns false if the master has withdrawn the task */
  take(number: number): boolean {
    return !this.isShared || this.#turn(number, GIVEN, TAKEN)
  }

  /** Call it before the task's file is marked. */
  begin(number: number): void {
    this.#put(number, BEGUN)
  }

  /** Call it right before the handler is called. */
  start(number: number): void {
    this.#put(number, RUNNING)
  }

  /** Call it when the run has ended, before its outcome is stored. */
  end(number: number): void {
    this.#put(number, SETTLING)
  }

  /** Call it when the worker has done what it does with the task, and only its report is to come. */
  over(number: number, isDone: boolean): void {
    this.#put(number, isDone ? DONE : KEPT)
  }

  #at(number: number): number {
    return Atomics.load(this.#cells, number % CELLS)
  }

  #put(number: number, state: number): void {
    Atomics.store(this.#cells, number % CELLS, state)
  }

  #turn(number: number, from: number, to: number): boolean {
    return Atomics.compareExchange(this.#cells, number % CELLS, from, to) === from
  }
}
