/** How a feed notices new tasks. */
export interface LookStats {
  /** How often it looks without a hint. */
  readonly everyMs: number
  /**
   * `events`: the system reports changes. `poll`: it looks every second, because another host may change the spool. `none`:
   * only the regular look.
   */
  readonly hints: 'events' | 'poll' | 'none'
  /** Directories from which changes are reported, and those where the system refused that. */
  readonly watched: number
  readonly refused: number
  /** Watches rest while workers race through a long backlog. */
  readonly isSuspended: boolean
  /** How many times it looked, when last (epoch ms; null: not yet), how long that took, and how long all names took. */
  readonly looks: number
  readonly lastAtMs: number | null
  readonly lastMs: number
  readonly lastFullMs: number
}
