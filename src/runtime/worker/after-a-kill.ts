import { setTimeout } from 'node:timers/promises'
import { messageOf } from '../../base/errors.js'
import { boundedFailure } from '../../base/task/failure-text.js'
import { isHeldUp, type Report } from '../../base/task/report.js'
import type { Claims } from '../../engines/claims.js'
import type { Engine } from '../../engines/open-engine.js'
import type { AfterKill, MarkedRef, PastSettled, WorkerMessage } from '../ipc/messages.js'
import { openClaims } from './open-claims.js'

/** How long to wait for a lock, in ms, because a program that was killed holds the lock of its task for a moment longer. */
const LETS_GO_WITHIN_MS = 1000
const PAUSE_MS = 20

/** Returns the answer to a question to a process aside. */
export async function answerAside(id: number, act: () => Promise<unknown>): Promise<WorkerMessage> {
  try {
    return { type: 'done-aside', id, value: await act() }
  } catch (thrown) {
    return { type: 'done-aside', id, error: boundedFailure(messageOf(thrown)) }
  }
}

export function answerAfterKill(
  engineOf: (options: AfterKill['options']) => Pick<Engine, 'claims'>,
  { id, options, tasks }: AfterKill,
): Promise<WorkerMessage> {
  return answerAside(id, async (): Promise<PastSettled> => {
    const claims = await openClaims(engineOf(options), options)
    const endsAt = performance.now() + LETS_GO_WITHIN_MS
    const found: Array<Report | null> = []
    for (const task of tasks) found.push(await settlePast(claims, task, endsAt))
    return found
  })
}

/** Settles what a past run of a task has left, by a claim. A task that may run after that is released for other processes. */
async function settlePast(
  claims: Pick<Claims, 'claim' | 'release'>,
  { ref, lastRun }: MarkedRef,
  endsAt: number,
): Promise<Report | null> {
  for (;;) {
    const claim = await claims.claim(ref, lastRun)
    if (!('kind' in claim)) {
      await claims.release(claim)
      return null
    }
    if (!isHeldUp(claim) || performance.now() > endsAt) return claim
    await setTimeout(PAUSE_MS)
  }
}
