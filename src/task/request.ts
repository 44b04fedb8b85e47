/** A task to be stored: what every way of enqueuing makes, and every engine takes. */
export interface Request {
  /** Keys and values as bytes, in the order in which they are written. The magic keys are among them, as in uWSGI's files. */
  readonly vars: ReadonlyArray<readonly [key: Buffer, value: Buffer]>
  readonly body?: Buffer
  /** Not before this time: whole epoch seconds, as a file's mtime has them. */
  readonly atSeconds?: number
  /** The priority directory: digits only. */
  readonly priority?: string
}
