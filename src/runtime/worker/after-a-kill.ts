import { setTimeout } from 'node:timers/promises'
import { messageOf } from '../../base/errors.js'
import { boundedFailure } from '../../base/task/failure-text.js'
import { isHeldUp, type Report } from '../../base/task/report.js'
import type { Claims } from '../../engines/claims.js'
import { doHere } from '../../engines/directory/aside-work.js'
import type { Engine } from '../../engines/open-engine.js'
import {
  type DoAside,
  type MarkedRef,
  SETTLE_PAST,
  type WorkerMessage,
  type WorkerOptions,
} from '../ipc/messages.js'
import { openClaims } from './open-claims.js'

/** How long to wait for a lock, in ms, because a program that was killed holds the lock of its task for a moment longer. */
const LETS_GO_WITHIN_MS = 1000
const PAUSE_MS = 20

/** Does what the master asks of a process that runs no task. */
export async function answerAside(
  { id, name, spool, args }: DoAside,
  engineOf: (options: WorkerOptions) => Pick<Engine, 'claims'>,
): Promise<WorkerMessage> {
  const act = doHere as (name: string, spool: string, ...args: readonly unknown[]) => Promise<unknown>
  try {
    if (name !== SETTLE_PAST) return { type: 'done-aside', id, value: await act(name, spool, ...args) }
    const [options, tasks] = args as [WorkerOptions, readonly MarkedRef[]]
    const claims = await openClaims(engineOf(options), options)
    const endsAt = performance.now() + LETS_GO_WITHIN_MS
    const found: Array<Report | null> = []
    for (const task of tasks) found.push(await settlePast(claims, task, endsAt))
    return { type: 'done-aside', id, value: found }
  } catch (thrown) {
    return { type: 'done-aside', id, error: boundedFailure(messageOf(thrown)) }
  }
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
