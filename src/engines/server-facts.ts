import type { MemberFacts } from '../base/task/member.js'
import type { UpkeepStats } from './contracts/upkeep.js'
import type { FeedStats } from './feed.js'

/** What a Redis server says of itself. */
export interface RedisFacts {
  /** The server's name for people, without user and password. */
  readonly name: string
  /** Null: the server does not tell this user. */
  readonly info: ReadonlyMap<string, string> | null
  readonly config: ReadonlyMap<string, string> | null
  /** How far the server's clock is ahead of ours; null: the server does not tell. */
  readonly skewMs: number | null
  readonly roundTripMs: number
  /** What this user may not do; null: everything that is needed is allowed. */
  readonly refusal: string | null
  /** How many replicas have to have a task before it counts as stored. */
  readonly replicasWanted: number
}

/** A spool on a server at one moment, over all machines. Times are by the server's clock; epoch ms. */
export interface ServerOverview {
  readonly atMs: number
  readonly tasks: Pick<FeedStats, 'priorities' | 'prioritiesLeftOut' | 'oldestDueMs' | 'nextDueMs'> &
    Readonly<Record<'due' | 'running' | 'waiting' | 'retrying' | 'held', number>>
  readonly upkeep: UpkeepStats
  readonly server: ServerStatus
}

/** What only a spool on a server has, for people and monitoring. */
export interface ServerStatus {
  /** The processes that run its tasks, on all machines. */
  readonly members: readonly MemberFacts[]
  /** The named tasks of which only `count` may run at a time, over all machines. */
  readonly limits: ReadonlyArray<
    Readonly<Record<'count' | 'running' | 'due', number>> & { readonly name: string }
  >
  /** Null, here and in the fields below: the server does not tell this user. */
  readonly version: string | null
  readonly role: string | null
  readonly usedBytes: number | null
  /** 0: the limit is the machine's memory. */
  readonly maxBytes: number | null
  /** `appendonly` and `appendfsync` of the server: whether it writes to its disk, and when. */
  readonly appends: boolean | null
  readonly syncs: string | null
}
