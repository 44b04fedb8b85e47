import { setTimeout } from 'node:timers/promises'
import type { Ref } from '../../base/task/ref.js'
import type { Claims } from '../../engines/claims.js'

/** A program that ran for a task and was just killed holds its lock for a moment longer. */
const PATIENCE_MS = 1000
const PAUSE_MS = 20

/** Clears the marks of tasks whose run was ended through no fault of theirs, as if it had not taken place. */
export async function clearMarks(
  claims: Pick<Claims, 'claim' | 'release'>,
  refs: readonly Ref[],
): Promise<{ readonly left: readonly Ref[]; readonly error: string }> {
  let left = refs
  let error = ''
  for (const endsAt = performance.now() + PATIENCE_MS; ; await setTimeout(PAUSE_MS)) {
    const kept: Ref[] = []
    for (const ref of left) {
      const claim = await claims.claim(ref, { kind: 'blameless' })
      if (!('kind' in claim)) await claims.release(claim)
      else if (claim.kind === 'locked' || claim.kind === 'untouched' || claim.kind === 'unreadable') {
        error = claim.detail ?? 'another process holds it'
        kept.push(ref)
      }
    }
    left = kept
    if (left.length === 0 || performance.now() > endsAt) return { left, error }
  }
}
