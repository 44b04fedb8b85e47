import { setTimeout } from 'node:timers/promises'
import type { Report } from '../../base/task/report.js'
import type { Claims } from '../../engines/claims.js'
import type { CancelledRef } from '../ipc/messages.js'

/** A program of a run that was just ended holds its lock for a moment longer. */
const PATIENCE_MS = 1000
const PAUSE_MS = 20

/**
 * Buries tasks that were cancelled and whose process has ended in the middle of their runs. One that has no mark of such a
 * run was settled in time, or had not begun: it is left as it is.
 */
export function buryCancelled(
  claims: Pick<Claims, 'claim' | 'release'>,
  tasks: readonly CancelledRef[],
): Promise<readonly Report[]> {
  const endsAt = performance.now() + PATIENCE_MS
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
