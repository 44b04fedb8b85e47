import { setTimeout } from 'node:timers/promises'
import type { Report } from '../../base/task/report.js'
import type { Claims } from '../../engines/claims.js'
import type { AsideReply, CancelledRef, MarkedRef, MasterMessage } from '../ipc/messages.js'

/** What is to be done to the files of tasks whose process was ended in the middle of their runs. */
export type AfterKill = Extract<MasterMessage, { type: 'clear-marks' | 'bury-cancelled' }>
type Needed = Pick<Claims, 'claim' | 'release'>

/** A program that ran for a task and was just killed holds its lock for a moment longer. */
const LETS_GO_WITHIN_MS = 1000
const PAUSE_MS = 20

export async function actAfterKill(claims: Needed, message: AfterKill): Promise<AsideReply> {
  if (message.type === 'clear-marks') return await clearMarks(claims, message.tasks)
  const endsAt = performance.now() + LETS_GO_WITHIN_MS
  const reports = await Promise.all(message.tasks.map(task => bury(claims, task, endsAt)))
  return { type: 'cancelled-buried', reports }
}

/** Clears the marks of tasks whose run was ended through no fault of theirs, as if it had not taken place. */
async function clearMarks(claims: Needed, tasks: readonly MarkedRef[]): Promise<AsideReply> {
  const reports: Report[] = []
  let left = tasks
  let error = ''
  for (const endsAt = performance.now() + LETS_GO_WITHIN_MS; ; await setTimeout(PAUSE_MS)) {
    const kept: MarkedRef[] = []
    for (const task of left) {
      const claim = await claims.claim(task.ref, task.lastRun)
      if (!('kind' in claim)) await claims.release(claim)
      else if (claim.kind === 'locked' || claim.kind === 'untouched' || claim.kind === 'unreadable') {
        error = claim.detail ?? 'another process holds it'
        kept.push(task)
      } else reports.push(claim)
    }
    left = kept
    if (left.length === 0 || performance.now() > endsAt)
      return { type: 'marks-cleared', left: left.map(({ ref }) => ref), error, reports }
  }
}

/**
 * Buries a task that was cancelled and whose process has ended in the middle of its run. If it has no mark of such a run it was settled
 * in time, or had not begun: it is left as it is.
 */
async function bury(claims: Needed, { ref, detail }: CancelledRef, endsAt: number): Promise<Report> {
  for (;;) {
    const claim = await claims.claim(ref, { kind: 'cancelled', detail })
    if (!('kind' in claim)) return await claims.release(claim)
    if (claim.kind !== 'locked' || performance.now() > endsAt) return claim
    await setTimeout(PAUSE_MS)
  }
}
