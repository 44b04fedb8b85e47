import { setTimeout } from 'node:timers/promises'
import type { Report } from '../../base/task/report.js'
import type { Claims } from '../../engines/claims.js'
import type { CancelledRef, MarkedRef, MarksCleared } from '../ipc/messages.js'

// What is done to the files of tasks whose process was ended in the middle of their runs.

/** A program that ran for a task and was just killed holds its lock for a moment longer. */
const LETS_GO_WITHIN_MS = 1000
const PAUSE_MS = 20

/** Clears the marks of tasks whose run was ended through no fault of theirs, as if it had not taken place. */
export async function clearMarks(
  claims: Pick<Claims, 'claim' | 'release'>,
  tasks: readonly MarkedRef[],
): Promise<Omit<MarksCleared, 'type'>> {
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
 * Buries tasks that were cancelled and whose process has ended in the middle of their runs. One that has no mark of such a
 * run was settled in time, or had not begun: it is left as it is.
 */
export function buryCancelled(
  claims: Pick<Claims, 'claim' | 'release'>,
  tasks: readonly CancelledRef[],
): Promise<readonly Report[]> {
  const endsAt = performance.now() + LETS_GO_WITHIN_MS
  return Promise.all(tasks.map(task => bury(claims, task, endsAt)))
}

async function bury(
  claims: Pick<Claims, 'claim' | 'release'>,
  { ref, detail }: CancelledRef,
  endsAt: number,
): Promise<Report> {
  for (;;) {
    const claim = await claims.claim(ref, { kind: 'cancelled', detail })
    if (!('kind' in claim)) return await claims.release(claim)
    if (claim.kind !== 'locked' || performance.now() > endsAt) return claim
    await setTimeout(PAUSE_MS)
  }
}
