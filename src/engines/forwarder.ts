import type { Request } from '../base/task/request.js'

/** A task that lies in a directory. */
export interface ForwardedTask {
  /** The path of its file. */
  readonly file: string
  /** Of packet and body. */
  readonly bytes: number
  /** May throw. */
  read(): Request
  /** Fires when nobody waits any more for a spool that is away. */
  readonly over: AbortSignal
}

/** `refused`: for its own fault, so it always would be. `away`: it was given up while nothing could be stored. */
export type Forwarded =
  | { readonly kind: 'stored' | 'away' }
  | { readonly kind: 'refused' | 'failed'; readonly why: string }

/** Stores tasks of a directory in another spool. */
export interface Forwarder {
  /**
   * Stores tasks in the order in which it is asked to, each once, however often it is tried. Resolves when that is done; while the
   * spool is away, that takes as long as it takes.
   */
  forward(task: ForwardedTask): Promise<Forwarded>
}

/** Told once, until it is reached again. `why` undefined: it is. */
export type AwayListener = (why: string | undefined) => void
