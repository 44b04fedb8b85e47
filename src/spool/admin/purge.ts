import { setImmediate } from 'node:timers/promises'
import { messageOf } from '../../base/errors.js'
import { lstatSync } from '../../files/anchored-path.js'
import { displayName, type Ref, toByteString, toFsPath } from '../../task/ref.js'
import { DeadLetters, deadPathOf } from '../dead-letters.js'
import { change, type OpenSpool, openSpool, remove } from './change.js'

export interface PurgeLimits {
  /** Dead letters that are older are removed. null: however old. */
  readonly maxAgeMs: number | null
  /** Of more, the oldest are removed. null: however many. */
  readonly maxCount: number | null
}

const REMOVALS_PER_TURN = 100

/**
 * The dead letters beyond the limits, in directory order. Twice the directory is listed, so that of a million only
 * numbers are kept. Their age is their ctime, which nobody can set: a restored backup is young.
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

/** Of the oldest beyond the count: the time of the last one, and how many of them have just that time. */
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
  /** Why the first of those is still there that could not be removed. */
  readonly fault?: string
}

/** Removes the dead letters beyond the limits. @param spool its real path */
export async function purge(spool: string, limits: PurgeLimits): Promise<Purged> {
  let [removed, fault]: [number, string | undefined] = [0, undefined]
  if (limits.maxAgeMs === null && limits.maxCount === null) return { removed }
  let at: OpenSpool | undefined
  for await (const name of overLimits(toByteString(spool), limits)) {
    at ??= await openSpool(spool)
    const faultOfThis = removeLetter(at, name)
    if (faultOfThis === undefined) removed++
    else fault ??= `${displayName(name)}: ${faultOfThis}`
    if (removed % REMOVALS_PER_TURN === 0) await setImmediate() // a daemon has other work
  }
  return { removed, ...(fault === undefined ? {} : { fault }) }
}

/** @returns why it is still there */
function removeLetter(at: OpenSpool, name: Ref): string | undefined {
  try {
    const changed = change(at, deadPathOf(name), file => remove(at, file))
    if (changed.kind === 'refused') return changed.detail
    return changed.kind === 'running' ? 'somebody holds it' : undefined
  } catch (error) {
    return messageOf(error)
  }
}
