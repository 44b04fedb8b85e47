import type { Ref } from '../../base/task/ref.js'
import { claimFile, letGo } from '../../engines/spool/claims/claim.js'
import type { ClaimedTask } from '../../engines/spool/claims/claimed-task.js'
import { TaskDirectories } from '../../engines/spool/priority-directory.js'
import type { ExaminedSpool } from './examined-spool.js'
import { OVER, type Repair } from './finding.js'

/**
 * Repairs a task while holding its lock, as a run does.
 *
 * @param isDue true: repair only a task that is due
 * @param fixGone does what remains to be done if the file is gone
 */
export async function whileHeld(
  examined: ExaminedSpool,
  ref: Ref,
  { isDue = false, fixGone }: { isDue?: boolean; fixGone?: () => Repair },
  fix: (task: ClaimedTask) => Repair,
): Promise<Repair> {
  const locker = await examined.locker()
  const nowMs = isDue ? Date.now() : Number.POSITIVE_INFINITY
  const leave = () => ({ kind: 'malformed', detail: 'it is not a spool packet' }) as const
  const directories = new TaskDirectories(examined.spool)
  const task = claimFile(ref, directories, locker, nowMs, leave)
  directories.release()
  if (!('kind' in task))
    try {
      return fix(task)
    } finally {
      letGo(task.file, locker)
    }
  if (task.kind === 'gone' && fixGone !== undefined) return fixGone()
  if (task.kind === 'gone' || task.kind === 'locked' || task.kind === 'later') return OVER
  return { kind: 'left', detail: task.detail ?? task.kind }
}
