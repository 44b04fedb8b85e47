/** What a Redis says of itself. */
export interface RedisFacts {
  /** For people, without user and password. */
  readonly name: string
  /** Null: it does not tell this user. */
  readonly info: ReadonlyMap<string, string> | null
  readonly config: ReadonlyMap<string, string> | null
  /** Its clock is so far ahead of ours; null: it does not tell. */
  readonly skewMs: number | null
  readonly roundTripMs: number
  /** What this user may not do; null: nothing that is needed is forbidden. */
  readonly refusal: string | null
  /** How many are to have a task before it counts as stored. */
  readonly replicasWanted: number
}
