import { setTimeout } from 'node:timers/promises'
import type { ClaimsAtOnce } from '../engines/claims.js'
import type { Ref } from '../task/ref.js'

/** A program that ran for a task, and was just killed, holds its lock for a moment longer. */
const PATIENCE_MS = 1000
const PAUSE_MS = 20

/** Tasks whose run was ended by somebody who is not to blame for it are as before that run. */
export async function clearMarks(
  claims: Pick<ClaimsAtOnce, 'claim' | 'release'>,
  refs: readonly Ref[],
): Promise<{ readonly left: readonly Ref[]; readonly error: string }> {
  let left = refs
  let error = ''
  for (const endsAt = performance.now() + PATIENCE_MS; ; await setTimeout(PAUSE_MS)) {
    left = left.filter(ref => {
      const claim = claims.claim(ref, { kind: 'blameless' })
      if ('kind' in claim) {
        if (claim.kind !== 'locked' && claim.kind !== 'untouched' && claim.kind !== 'unreadable') return false
        error = claim.detail ?? 'somebody else holds it'
        return true
      }
      claims.release(claim)
      return false
    })
    if (left.length === 0 || performance.now() > endsAt) return { left, error }
  }
}
