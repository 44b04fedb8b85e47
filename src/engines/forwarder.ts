import type { Request } from '../base/task/request.js'

/** A task in a spool directory that is to be stored in another spool. */
export interface ForwardedTask {
  /** The path of the task file. */
  readonly file: string
  /** The size of the body. The packet has at most 64 KiB more. */
  readonly bodyBytes: number
  /** Reads the task. May throw. */
  read(): Request
  /** Fires when nobody waits any more for a spool that is away. */
  readonly over: AbortSignal
}

/**
 * `refused`: for a fault of the task itself, so that it would be refused again. `away`: given up, because the spool could not be
 * reached meanwhile.
 */
export type Forwarded =
  | { readonly kind: 'stored' | 'away' }
  | { readonly kind: 'refused' | 'failed'; readonly why: string }

/** Stores tasks of a directory in another spool. */
export interface Forwarder {
  /**
   * Stores tasks in the order of the calls, each once, however often it is tried. Resolves when the task is stored, or will not
   * be; while the spool is away, that takes as long as it takes.
   */
  forward(task: ForwardedTask): Promise<Forwarded>
}

/** Called once when the other spool is away, with the reason, and once with undefined when it is reached again. */
export type AwayListener = (why: string | undefined) => void
