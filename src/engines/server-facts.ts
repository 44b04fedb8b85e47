import type { MemberFacts } from '../base/task/member.js'
import type { UpkeepStats } from './contracts/upkeep.js'
import type { FeedStats } from './feed.js'

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

/** A spool on a server at one moment, over all machines. Times are by the clock of the server; epoch ms. */
export interface ServerOverview {
  readonly atMs: number
  readonly tasks: Pick<FeedStats, 'priorities' | 'prioritiesLeftOut' | 'oldestDueMs' | 'nextDueMs'> &
    Readonly<Record<'due' | 'running' | 'waiting' | 'retrying' | 'held', number>>
  readonly upkeep: UpkeepStats
  readonly server: ServerStatus
}

/** What only a spool on a server has, for people and monitoring. */
export interface ServerStatus {
  /** Those that run its tasks, on all machines. */
  readonly members: readonly MemberFacts[]
  /** Of the named tasks of which only so many may run, over all machines. */
  readonly limits: ReadonlyArray<
    Readonly<Record<'count' | 'running' | 'due', number>> & { readonly name: string }
  >
  /** Each null: it does not tell this user. */
  readonly version: string | null
  readonly role: string | null
  readonly usedBytes: number | null
  /** 0: the machine's memory is the limit. */
  readonly maxBytes: number | null
  /** `appendonly` and `appendfsync`: what it writes to its disk, and when. */
  readonly appends: boolean | null
  readonly syncs: string | null
}
