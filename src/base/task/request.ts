/** A task to be stored: every way of enqueuing creates one, and every engine accepts it. */
export interface Request {
  /** Keys and values as the packet at the start of the file, including the magic keys, as in uWSGI's files. */
  readonly packet: Buffer
  /** Bytes, or a stream, which is stored as it arrives; if it throws, nothing is stored. */
  readonly body?: Buffer | AsyncIterable<Uint8Array>
  /** Run it no earlier than this: epoch seconds, with their fraction. */
  readonly atSeconds?: number
  /** The priority directory: digits only. */
  readonly priority?: string
  /** The caller's own name for the task: a spool stores it once. */
  readonly id?: string
  /**
   * The text that the file's name has in place of a random number. By this mark, a process that forwards the task to another
   * spool recognizes what is stored there. Letters, digits and `-`.
   */
  readonly mark?: string
  /**
   * The name that the task gets in its spool: a new one, made by that spool. The process that stores the task has written
   * the name down before.
   */
  readonly name?: string
}

/** Where a task was stored. */
export interface Stored {
  /** The task's file. */
  readonly path: string
  /** True if a task with this id exists, or has existed, so that this one was not stored again. */
  readonly isDuplicate: boolean
}
