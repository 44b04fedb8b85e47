import { hostname } from 'node:os'
import type { Member, MemberFacts } from '../../base/task/member.js'
import type { PauseFollower } from '../../engines/contracts/upkeep.js'
import type { FeedStats, Source } from '../../engines/feed.js'
import type { PoolOptions } from './pool-options.js'
import type { PoolStats } from './pool-stats.js'
import type { WorkerPool } from './worker-pool.js'

/** One spool: its tasks and the processes that run them. */
export interface SpoolWorkers {
  readonly spool: string
  readonly feed: Source
  readonly pool: WorkerPool
  readonly pauses: PauseFollower
  /** Other machines no longer know of it. Absent: they never did. */
  readonly leave?: (() => Promise<void>) | undefined
  /** What the spool was opened with. If a reload changes it, the spool needs a new feed. */
  readonly engineKey: string
}

/** A spool that is run, for people and monitoring. */
export interface SpoolWorkersStats {
  readonly spool: string
  readonly feed: FeedStats
  readonly pool: PoolStats
}

/** What a reload wants: the same spool with other processes, or a spool to open. */
export interface SpoolWorkersPlan {
  readonly spool: string
  readonly engineKey: string
  readonly pool: PoolOptions
  open(): Promise<SpoolWorkers>
}

/** No tasks come from there any more. */
export function closeSources({ feed, pauses }: SpoolWorkers): void {
  feed.close()
  pauses.close()
}

const startedAtMs = Math.round(Date.now() - process.uptime() * 1000)

/** What others may know of the processes of a spool, and have them do. */
export function memberOf(pool: WorkerPool, about: Pick<MemberFacts, 'isDaemon' | 'controls'>): Member {
  return {
    facts() {
      const { wanted, present, workers } = pool.stats
      const running = workers.reduce((sum, worker) => sum + worker.running.length, 0)
      const { isHalted } = pool
      return {
        ...{ host: hostname(), pid: process.pid, startedAtMs, wanted, present, running, isHalted },
        ...about,
      }
    },
    cancel: (task, tell) => pool.cancel(task, tell),
  }
}
