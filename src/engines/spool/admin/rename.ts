import { errnoOf } from '../../../base/errors.js'
import { displayName } from '../../../base/task/ref.js'
import { pathOf, renameSync } from '../../../system/files/anchored-path.js'
import { Records } from '../records.js'
import { pastOf } from '../state-byte.js'
import { makeArrival } from './arrival.js'
import { type Changed, type OpenSpool, refused, type TargetFile } from './change.js'
import { recordOf } from './hold.js'
import { whyNot, whyNoWay } from './send.js'

/**
 * Moves a task to another spool on the same file system by a rename, with its time, state byte and record. It stays locked
 * until it has arrived.
 *
 * After a kill before the rename, the task is in the source (and an empty file or a record, which no daemon runs, in the
 * target); after it, in the target (and its record in the source, where fsck finds it).
 *
 * @returns undefined: the file systems are different, or a move has begun that went the other way
 */
export function rename(from: OpenSpool, to: OpenSpool, file: TargetFile): Changed | undefined {
  const records = new Records(from.spool)
  const record = recordOf(records, file)
  const past = pastOf(file.state ?? 0)
  const refusal = whyNot(past, record) ?? whyNoWay(record, displayName(to.spool))
  if (refusal !== undefined) return refused(refusal)
  if (record?.movedTo !== undefined) return undefined
  const arrival = makeArrival(to, file.ref)
  let hasArrived = false
  try {
    if (record === undefined) new Records(to.spool).remove(arrival.ref)
    else new Records(to.spool).write(arrival.ref, record)
    renameSync(pathOf(file), arrival.fsPath)
    hasArrived = true
    records.remove(file.ref)
    return { kind: 'done', to: arrival.ref }
  } catch (error) {
    if (errnoOf(error) !== 'EXDEV') throw error
    new Records(to.spool).remove(arrival.ref)
    return undefined
  } finally {
    arrival.end(hasArrived)
  }
}
