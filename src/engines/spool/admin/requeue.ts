import { pathOf, renameSync } from '../../../system/files/anchored-path.js'
import { type DeadLetter, DeadLetters, deadNameOf } from '../dead-letters.js'
import { Records, type TaskRecord } from '../records.js'
import { setTime } from '../spool-file.js'
import { RECORDED, writeState } from '../state-byte.js'
import { makeArrival } from './arrival.js'
import { type Changed, type OpenSpool, refused, type TargetFile } from './change.js'

/**
 * Brings a dead letter back into its spool, due at once.
 *
 * Everything is prepared while it is still a dead letter; the rename publishes it. After a kill before the rename, it is
 * still a dead letter (with an empty file or a record of its name in the spool, which no daemon runs), and can be requeued
 * again. After a kill after the rename, the task is in the spool, and its reason stays behind, which does no harm.
 */
export function requeue(
  at: OpenSpool,
  file: TargetFile,
  { keepAttempts }: { keepAttempts: boolean },
): Changed {
  const name = deadNameOf(file.ref)
  if (name === undefined) return refused('it is no dead letter')
  if (file.state === undefined) return refused('it is not a spool packet: nothing could run it')
  const letters = new DeadLetters(at.spool)
  const letter = letters.read(name)
  const arrival = makeArrival(at, letter?.ref ?? name)
  let hasArrived = false
  try {
    const record = keepAttempts && letter !== undefined ? recordOf(letter) : undefined
    const records = new Records(at.spool)
    if (record === undefined) records.remove(arrival.ref)
    else records.write(arrival.ref, record)
    const nowMs = Date.now()
    writeState(file.fd, record === undefined ? 0 : RECORDED)
    setTime(file.fd, nowMs) // if another user owns the file, the write above has already set the mtime to now
    renameSync(pathOf(file), arrival.fsPath)
    hasArrived = true
    letters.forget(name)
    return { kind: 'done', to: arrival.ref }
  } finally {
    arrival.end(hasArrived)
  }
}

function recordOf({ attempts, crashes, firstFailureAt, lastFailureAt, lastError }: DeadLetter): TaskRecord {
  return {
    attempts,
    crashes,
    ...(firstFailureAt === undefined ? {} : { firstFailureAt }),
    ...(lastFailureAt === undefined ? {} : { lastFailureAt }),
    ...(lastError === undefined ? {} : { lastError }),
  }
}
