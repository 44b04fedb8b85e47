/** A task to be stored: what every way of enqueuing makes, and every engine takes. */
export interface Request {
  /** Keys and values as the packet that the file begins with. The magic keys are among them, as in uWSGI's files. */
  readonly packet: Buffer
  /** Bytes, or a stream, which is stored as it comes; when it throws, nothing is stored. */
  readonly body?: Buffer | AsyncIterable<Uint8Array>
  /** Not before this time: whole epoch seconds, as a file's mtime has them. */
  readonly atSeconds?: number
  /** The priority directory: digits only. */
  readonly priority?: string
  /** The caller's own name for the task: one spool takes it once. */
  readonly id?: string
}

/** Where a task was stored. */
export interface Stored {
  /** The task's file. */
  readonly path: string
  /** A task with this id was there already, or has been; this one was not stored a second time. */
  readonly isDuplicate: boolean
}
