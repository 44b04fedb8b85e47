import { doEach } from '../../../base/each.js'
import { messageOf } from '../../../base/errors.js'
import { displayName, type Ref, toByteString, toFsPath } from '../../../base/task/ref.js'
import { lstatSync } from '../../../system/files/anchored-path.js'
import { DeadLetters, deadPathOf } from '../dead-letters.js'
import { change, type OpenSpool, openSpool, remove } from './change.js'

export interface PurgeLimits {
  /** Remove dead letters older than this. null: no limit. */
  readonly maxAgeMs: number | null
  /** Keep at most this many, and remove the oldest. null: no limit. */
  readonly maxCount: number | null
}

/**
 * The dead letters beyond the limits, in directory order. The directory is listed twice, so that only one number per
 * letter is kept in memory. The age is that of the ctime, which cannot be set: a restored backup counts as new.
 */
export async function* overLimits(
  spool: string,
  { maxAgeMs, maxCount }: PurgeLimits,
  nowMs = Date.now(),
): AsyncGenerator<Ref> {
  const letters = new DeadLetters(spool)
  const oldestMs = maxAgeMs === null ? Number.NEGATIVE_INFINITY : nowMs - maxAgeMs
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

/** Of the letters in excess of the count: the time of the newest, and how many of them have exactly that time. */
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

interface Purged {
  readonly removed: number
  /** Why the first letter that could not be removed is still there. */
  readonly fault?: string
}

/**
 * Removes the dead letters beyond the limits.
 *
 * @param spool its real path
 * @param passed called after each letter that was to be removed
 * @param signal ends it after the letter in hand
 */
export async function purge(
  spool: string,
  limits: PurgeLimits,
  passed?: () => void,
  signal?: AbortSignal,
): Promise<Purged> {
  let [removed, fault]: [number, string | undefined] = [0, undefined]
  if (limits.maxAgeMs === null && limits.maxCount === null) return { removed }
  let at: OpenSpool | undefined
  const removeOne = async (name: Ref) => {
    at ??= await openSpool(spool)
    const faultOfThis = removeLetter(at, name)
    if (faultOfThis === undefined) removed++
    else fault ??= `${displayName(name)}: ${faultOfThis}`
    passed?.()
  }
  await doEach(overLimits(toByteString(spool), limits), removeOne, { signal })
  return { removed, ...(fault === undefined ? {} : { fault }) }
}

/** @returns why the letter is still there; undefined if it was removed */
function removeLetter(at: OpenSpool, name: Ref): string | undefined {
  try {
    const changed = change(at, deadPathOf(name), file => remove(at, file))
    if (changed.kind === 'refused') return changed.detail
    return changed.kind === 'running' ? 'somebody holds it' : undefined
  } catch (error) {
    return messageOf(error)
  }
}
