/** How a feed notices new tasks. */
export interface LookStats {
  /** How often the feed looks without a hint. */
  readonly everyMs: number
  /**
   * `events`: the system reports changes. `poll`: the feed looks every second, because another host may change the spool.
   * `none`: only the regular look.
   */
  readonly hints: 'events' | 'poll' | 'none'
  /** How many directories report changes, and for how many the system refused that. */
  readonly watched: number
  readonly refused: number
  /** True while the watches rest, because workers race through a long backlog. */
  readonly isSuspended: boolean
  /**
   * How many times the feed looked, when the last look was (epoch ms; null: none yet), how long it took, and how long the
   * last look at all names took.
   */
  readonly looks: number
  readonly lastAtMs: number | null
  readonly lastMs: number
  readonly lastFullMs: number
}
