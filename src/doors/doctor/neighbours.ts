import { counted } from '../../base/counted.js'
import { toByteString } from '../../base/task/ref.js'
import { neighboursOf } from '../../engines/spool/neighbours.js'
import { realPathOf } from '../../system/file-stats.js'
import type { Diagnosis } from './diagnosis.js'

const MAX_COMMAND_CHARS = 80

/** Other processes that use a spool. */
export function* checkNeighbours(path: string, claimsByLease: boolean): Generator<Diagnosis> {
  const spool = realPathOf(path)
  if (spool === undefined) return
  const neighbours = neighboursOf(toByteString(spool))
  for (const { pid, command, isUwsgi, workers } of neighbours) {
    const about = { topic: 'neighbours', about: spool } as const
    const text = `pid ${pid}${withWorkers(workers)} uses it (${command.slice(0, MAX_COMMAND_CHARS)})`
    if (isUwsgi && claimsByLease)
      yield {
        level: 'error',
        ...about,
        text: `${text}, but does not see leases: tasks may run twice`,
        fix: `kill ${pid}, or set spooler-lock = auto`,
      }
    else yield { level: 'note', ...about, text: `${text}; each task still has one runner at a time` }
  }
  if (neighbours.length === 0)
    yield { level: 'ok', topic: 'neighbours', about: spool, text: 'no other process uses it' }
}

/** ` with 2 workers`, for people. */
function withWorkers(count: number): string {
  return count === 0 ? '' : ` with ${counted(count, 'worker')}`
}
