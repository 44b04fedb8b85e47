import { hostname } from 'node:os'
import type { Member, MemberFacts } from '../../base/task/member.js'
import type { WorkerPool } from './worker-pool.js'

const startedAtMs = Math.round(Date.now() - process.uptime() * 1000)

/** What others may know of the processes of a spool, and have them do. */
export function memberOf(pool: WorkerPool, about: Pick<MemberFacts, 'isDaemon' | 'controls'>): Member {
  return {
    facts() {
      const { wanted, present, workers } = pool.stats
      const running = workers.reduce((sum, worker) => sum + worker.running.length, 0)
      const { isBraked } = pool
      return {
        ...{ host: hostname(), pid: process.pid, startedAtMs, wanted, present, running, isBraked },
        ...about,
      }
    },
    cancel: (task, tell) => pool.cancel(task, tell),
  }
}
