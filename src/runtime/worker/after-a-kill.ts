import { setTimeout } from 'node:timers/promises'
import { messageOf } from '../../base/errors.js'
import { boundedFailure } from '../../base/task/failure-text.js'
import type { Report } from '../../base/task/report.js'
import type { Claims } from '../../engines/claims.js'
import type { AfterKill, CancelledRef, MarkedRef, MarksCleared, WorkerMessage } from '../ipc/messages.js'

type Needed = Pick<Claims, 'claim' | 'release'>

/** A program that ran for a task and was just killed holds its lock for a moment longer. */
const LETS_GO_WITHIN_MS = 1000
const PAUSE_MS = 20

/** The answer to what is asked aside. */
export async function answerAside(id: number, act: () => Promise<unknown>): Promise<WorkerMessage> {
  try {
    return { type: 'done-aside', id, value: await act() }
  } catch (thrown) {
    return { type: 'done-aside', id, error: boundedFailure(messageOf(thrown)) }
  }
}

export async function actAfterKill(
  claims: Needed,
  { type, tasks }: AfterKill,
): Promise<MarksCleared | readonly Report[]> {
  if (type === 'clear-marks') return await clearMarks(claims, tasks)
  const endsAt = performance.now() + LETS_GO_WITHIN_MS
  return await Promise.all(tasks.map(task => bury(claims, task, endsAt)))
}

/** Clears the marks of tasks whose run was ended through no fault of theirs, as if it had not taken place. */
async function clearMarks(claims: Needed, tasks: readonly MarkedRef[]): Promise<MarksCleared> {
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
      return { left: left.map(({ ref }) => ref), error, reports }
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
