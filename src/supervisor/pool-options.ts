import type { RosterOptions } from './roster.js'

export interface PoolOptions extends RosterOptions {
  readonly processes: number
  /** Keep no process while idle. */
  readonly cheap: boolean
}

/** The options of the worker that runs what must run alone. */
export function aloneOptions(options: PoolOptions): RosterOptions {
  return { ...options, worker: { ...options.worker, concurrency: 1 } }
}
