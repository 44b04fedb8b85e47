/** A task to be stored: what every way of enqueuing makes, and every engine takes. */
export interface Request {
  /** Keys and values as bytes, in the order in which they are written. The magic keys are among them, as in uWSGI's files. */
  readonly vars: ReadonlyArray<readonly [key: Buffer, value: Buffer]>
  /** A stream is stored as it comes; when it throws, nothing is stored. */
  readonly body?: Buffer | AsyncIterable<Uint8Array>
  /** Not before this time: whole epoch seconds, as a file's mtime has them. */
  readonly atSeconds?: number
  /** The priority directory: digits only. */
  readonly priority?: string
}
