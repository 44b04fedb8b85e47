/** What a worker did with tasks of one name since its last message. */
export interface NamedRuns {
  readonly name: string
  /** How many may run at a time; null: that has no limit. */
  readonly slots: number | null
  started: number
  /** Runs that ended with SPOOL_OK. */
  done: number
  /** Runs whose task runs again, because its handler asked for it or threw. */
  retried: number
  /** Runs that made a dead letter of their task. */
  buried: number
  /** Runs that ended otherwise. */
  other: number
  /** How long these runs took. */
  ranMs: number
}
