import type { Answer } from './answer.js'
import type { SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from './outcome.js'

/** The packet as text: an object without a prototype, with a UTF-8 string per key, `spooler_task_name`, and any `body`. */
export interface Env {
  readonly [key: string]: string | Buffer | undefined
  readonly spooler_task_name: string
}

/** One run of one task, as its handler sees it. */
export interface Task {
  /** The file's base name. */
  readonly name: string
  /** The file's absolute path. */
  readonly path: string
  /** The spool directory's absolute path. */
  readonly spooler: string
  /** The number of the priority directory; null in the spool itself. */
  readonly priority: number | null
  /** When it was due: the later of the file's mtime and the packet's `at`. */
  readonly at: Date
  /** This run's number, from 1. */
  readonly attempt: number
  /** On Redis: larger than the token of every run of any task of this spool that began before. Undefined in a directory. */
  readonly fencingToken: number | undefined
  /** The packet's pairs: exact bytes, in order, with duplicates. */
  readonly vars: ReadonlyArray<readonly [key: Buffer, value: Buffer]>
  /** The bytes after the packet; undefined if there are none. Beyond 1 MiB they are read on first use. */
  readonly body: Buffer | undefined
  /**
   * Fires when the task is cancelled (`spoold cancel`), and shortly before the process is killed: by its deadline, or at the
   * end of a mercy.
   */
  readonly signal: AbortSignal
  /** Writes a line to the daemon's log, with the task's name. */
  log(message: string): void
  readonly SPOOL_OK: typeof SPOOL_OK
  readonly SPOOL_RETRY: typeof SPOOL_RETRY
  readonly SPOOL_IGNORE: typeof SPOOL_IGNORE
}

/** The function that `spooler-import` loads: the default export, or the one named `spooler`. */
export type Handler = (env: Env, task: Task) => Answer | Promise<Answer>
