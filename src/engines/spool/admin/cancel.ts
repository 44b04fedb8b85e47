import { hostname } from 'node:os'
import { messageOf } from '../../../base/errors.js'
import { cancelledDetail } from '../../../base/task/cancel.js'
import { DeadLetters } from '../dead-letters.js'
import { Records } from '../records.js'
import { ONCE, pastOf, writeState } from '../state-byte.js'
import { type Changed, DONE, type OpenSpool, refused, type TargetFile } from './change.js'
import { NO_PACKET, recordOf } from './hold.js'

/**
 * Buries a task that does not run. Everything is written while it is still a task; the rename makes it a dead letter. After a
 * kill before that, the task is as it was.
 */
export function cancel({ spool }: OpenSpool, file: TargetFile): Changed {
  const { ref, fd, state } = file
  if (state === undefined) return NO_PACKET
  if (pastOf(state) === 'done') return refused('it has run to SPOOL_OK, and only waits for its removal')
  const records = new Records(spool)
  const {
    attempts = 0,
    crashes = 0,
    firstFailureAt,
    lastFailureAt,
    lastError,
  } = recordOf(records, file) ?? {}
  const letter = {
    ...{ ref, reason: 'cancelled' as const, detail: cancelledDetail('was not running') },
    ...{ buriedAt: Date.now(), attempts, crashes, handlers: [], host: hostname() },
    ...(firstFailureAt === undefined ? {} : { firstFailureAt }),
    ...(lastFailureAt === undefined ? {} : { lastFailureAt }),
    ...(lastError === undefined ? {} : { lastError }),
  }
  try {
    if (new DeadLetters(spool).bury(file, letter) === undefined) return { kind: 'gone' }
  } catch (error) {
    return refused(`it is left as it was, because it cannot be buried: ${messageOf(error)}`)
  }
  try {
    if ((state & ONCE) === 0) writeState(fd, 0)
    records.remove(ref)
  } catch {} // it is a dead letter; a record without a task does no harm
  return DONE
}
