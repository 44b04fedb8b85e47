import { doEach } from '../../../base/each.js'
import { messageOf } from '../../../base/errors.js'
import { cancelledDetail } from '../../../base/task/cancel.js'
import { displayName, type Ref, toByteString, toFsPath } from '../../../base/task/ref.js'
import { lstatSync } from '../../../system/files/anchored-path.js'
import type { Purged, PurgeLimits } from '../../contracts/upkeep.js'
import { DeadLetters, deadNameOf, deadPathOf, failuresIn, letterOf } from '../dead-letters.js'
import { Records } from '../records.js'
import { setTime } from '../spool-file.js'
import { pastOf, RECORDED, writeState } from '../state-byte.js'
import {
  bring,
  type Changed,
  change,
  DONE,
  forget,
  type OpenSpool,
  openSpool,
  refused,
  remove,
  type TargetFile,
} from './change.js'
import { NO_PACKET, recordOf } from './hold.js'

/**
 * Buries a task that does not run. Everything is written while the file is still a task; the rename makes it a dead letter.
 * After a kill before the rename, the task is as it was.
 */
export function cancel({ spool }: OpenSpool, file: TargetFile): Changed {
  const { ref, state } = file
  if (state === undefined) return NO_PACKET
  if (pastOf(state) === 'done') return refused('it has run to SPOOL_OK, and only waits for its removal')
  const record = recordOf(new Records(spool), file)
  const letter = letterOf(ref, 'cancelled', cancelledDetail('was not running'), record, [])
  try {
    return new DeadLetters(spool).bury(file, letter) ? DONE : { kind: 'gone' }
  } catch (error) {
    return refused(`it is left as it was, because it cannot be buried: ${messageOf(error)}`)
  }
}

/**
 * Brings a dead letter back into its spool, due at once.
 *
 * Everything is prepared while the file is still a dead letter; the rename publishes it. After a kill before the rename, it
 * is still a dead letter (with an empty file or a record of its name in the spool, which no daemon runs), and can be
 * requeued again. After a kill after the rename, the task is in the spool, and its reason stays behind, which does no harm.
 */
export function requeue(
  at: OpenSpool,
  file: TargetFile,
  { keepAttempts }: { keepAttempts: boolean },
): Changed {
  const name = deadNameOf(file.ref)
  if (name === undefined) return refused('it is no dead letter')
  if (file.state === undefined) return refused('it is not a spool packet: nothing could run it')
  const letter = new DeadLetters(at.spool).read(name)
  const record = keepAttempts && letter !== undefined ? failuresIn(letter) : undefined
  const to = bring(at, file, letter?.ref ?? name, record, () => {
    const nowMs = Date.now()
    writeState(file.fd, record === undefined ? 0 : RECORDED)
    setTime(file.fd, nowMs) // if another user owns the file, the write above has already set the mtime to now
  })
  forget(at, file.ref)
  return { kind: 'done', to }
}

/**
 * Removes the dead letters beyond the limits; `fault` says why the first one that is still there was not removed.
 *
 * @param spool its real path
 * @param passed called after each letter that was to be removed
 * @param signal ends the purge after the letter in hand
 */
export async function purge(
  spool: string,
  limits: PurgeLimits,
  passed?: () => void,
  signal?: AbortSignal,
): Promise<Purged> {
  let [removed, fault]: [number, string | undefined] = [0, undefined]
  if (limits.maxAgeMs === null && limits.maxCount === null) return { removed, fault }
  let at: OpenSpool | undefined
  const removeOne = async (name: Ref) => {
    at ??= await openSpool(spool)
    const faultOfThis = await removeLetter(at, name)
    if (faultOfThis === undefined) removed++
    else fault ??= `${displayName(name)}: ${faultOfThis}`
    passed?.()
  }
  await doEach(overLimits(toByteString(spool), limits), removeOne, { signal })
  return { removed, fault }
}

/** @returns why the letter is still there; undefined if it was removed */
async function removeLetter(at: OpenSpool, name: Ref): Promise<string | undefined> {
  try {
    const changed = await change(at, deadPathOf(name), file => remove(at, file))
    if (changed.kind === 'refused') return changed.detail
    return changed.kind === 'running' ? 'somebody holds it' : undefined
  } catch (error) {
    return messageOf(error)
  }
}

/**
 * The dead letters beyond the limits, in directory order. The directory is listed twice, so that only one number per
 * letter is kept in memory. The age is that of the ctime, which cannot be set: a restored backup counts as new.
 */
export async function* overLimits(spool: string, { maxAgeMs, maxCount }: PurgeLimits): AsyncGenerator<Ref> {
  const letters = new DeadLetters(spool)
  const oldestMs = maxAgeMs === null ? Number.NEGATIVE_INFINITY : Date.now() - maxAgeMs
  const { lastMs, atLast } = maxCount === null ? NONE : await surplus(letters, maxCount)
  let left = atLast
  for await (const name of letters.names()) {
    const buriedMs = buriedAt(letters, name)
    if (buriedMs === undefined) continue
    const isSurplus = buriedMs < lastMs || (buriedMs === lastMs && left-- > 0)
    if (isSurplus || buriedMs < oldestMs) yield name
  }
}

const NONE = { lastMs: Number.NEGATIVE_INFINITY, atLast: 0 }

/** Returns, of the letters in excess of the count, the time of the newest, and how many have exactly that time. */
async function surplus(letters: DeadLetters, maxCount: number): Promise<typeof NONE> {
  const times: number[] = []
  for await (const name of letters.names()) {
    const buriedMs = buriedAt(letters, name)
    if (buriedMs !== undefined) times.push(buriedMs)
  }
  const count = times.length - maxCount
  const oldest = Float64Array.from(times).sort().subarray(0, Math.max(0, count))
  const lastMs = oldest.at(-1)
  return lastMs === undefined ? NONE : { lastMs, atLast: count - oldest.indexOf(lastMs) }
}

function buriedAt(letters: DeadLetters, name: Ref): number | undefined {
  return lstatSync(toFsPath(letters.pathOf(name)))?.ctimeMs
}
