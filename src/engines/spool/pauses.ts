import { lstat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf, messageOf } from '../../base/errors.js'
import { hasFields } from '../../base/json-guard.js'
import {
  describePauses,
  isSamePair,
  lastingPauses,
  NO_PAUSES,
  type Pause,
  type PausedPair,
  type Pauses,
} from '../../base/task/pause.js'
import { displayName, toByteString, toFsPath } from '../../base/task/ref.js'
import { ownersSight, seenPauses } from '../../formats/protocol/sight.js'
import { lstatSync, readFileSync, rmdirSync, unlinkSync } from '../../system/files/anchored-path.js'
import { syncDirectory } from '../../system/files/disk-sync.js'
import { hiddenKeysOf } from './hidden-keys.js'
import { takeSpoolLease } from './locker.js'
import { STATE_DIRECTORY } from './names.js'
import { findState, makeState, writeWhole } from './state-directory.js'

/**
 * The size of the file and the number of pauses are bounded, because every daemon reads the file at each change, and checks
 * each task's packet for each pair.
 */
const MAX_BYTES = 64 * 1024
const MOST_PAUSES = 100

/** Returns the path of the file, for a `stat`; `readPauses` reads the file. */
export function pausesPath(spool: string): string {
  return `${spool}/${STATE_DIRECTORY}/paused`
}

/**
 * Returns what `.spoold/paused` says, including pauses that are over by now. A file that cannot be read, or that is not what
 * spoold writes, pauses the whole spool, because it is unknown what must not start.
 *
 * @param spool its real path, a byte string
 */
export function readPauses(spool: string): Pauses {
  const text = readText(spool)
  if (text === undefined) return NO_PAUSES
  if (typeof text !== 'string') return { ...text, ...faulty(spool, text.fault) }
  try {
    const value: unknown = JSON.parse(text)
    return isFile(value)
      ? { pauses: value.pauses.map(toPause) }
      : faulty(spool, 'does not have the form that spoold writes')
  } catch {
    return faulty(spool, 'is not JSON')
  }
}

/** Returns what `readPauses` returns, without pauses that are over. */
export function currentPauses(spool: string): Pauses {
  const found = readPauses(spool)
  return { ...found, pauses: lastingPauses(found.pauses, Date.now()) }
}

/** Returns what `currentPauses` returns, without values that are hidden: for people. */
export function shownPauses(spool: string): Pauses {
  return seenPauses(currentPauses(spool), ownersSight(hiddenKeysOf(spool)))
}

/** True if this user may see the pauses. Only the spool's user may enter `.spoold`; to anyone else, what is paused is unknown. */
export function maySeePauses(spool: string): boolean {
  try {
    lstatSync(toFsPath(pausesPath(spool)))
    return true
  } catch {
    return false
  }
}

function readText(spool: string): string | { readonly fault: string; readonly isUnread?: true } | undefined {
  try {
    const state = findState(spool)
    if (state === undefined) return undefined
    const path = toFsPath(`${state}/paused`)
    const stats = lstatSync(path)
    if (stats === undefined) return undefined
    if (stats.isDirectory()) return { fault: 'is a directory' }
    if (!stats.isFile()) return { fault: 'is not a regular file' }
    if (stats.size > MAX_BYTES) return { fault: `is larger than ${MAX_BYTES} bytes` }
    return readFileSync(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    return { fault: `cannot be read: ${messageOf(error)}`, isUnread: true }
  }
}

function faulty(spool: string, fault: string): Pauses {
  return { pauses: [], fault: `${displayName(pausesPath(spool))} ${fault}` }
}

/** One pause in the file. Without a key, the whole spool is paused. */
interface Stored {
  readonly since: number
  readonly until?: number
  readonly key?: string
  readonly value?: string
}

function isFile(value: unknown): value is { readonly pauses: readonly Stored[] } {
  return (
    hasFields(value, { pauses: 'objects' }, {}) &&
    (value as { pauses: readonly unknown[] }).pauses.every(each =>
      hasFields(each, { since: 'time' }, { until: 'time', key: 'text', value: 'text' }),
    )
  )
}

function toPause({ since, until, key, value = '' }: Stored): Pause {
  return { pair: key === undefined ? null : [key, value], sinceMs: since, untilMs: until ?? null }
}

/**
 * Replaces the file. Two writers at once would lose a pause, so the caller holds a lease.
 *
 * @throws Error if there are too many pauses for the file, or the error of a write
 */
function writePauses(spool: string, pauses: readonly Pause[]): void {
  const stored = pauses.map(
    ({ pair, sinceMs, untilMs }): Stored => ({
      since: sinceMs,
      ...(untilMs === null ? {} : { until: untilMs }),
      ...(pair === null ? {} : { key: pair[0], value: pair[1] }),
    }),
  )
  const text = `${JSON.stringify({ pauses: stored })}\n`
  if (pauses.length > MOST_PAUSES || Buffer.byteLength(text) > MAX_BYTES)
    throw new Error(
      `no room for another pause: at most ${MOST_PAUSES}, and ${MAX_BYTES} bytes; spoold resume ends some`,
    )
  writeWhole(`${makeState(spool)}/paused`, text, { flush: true })
}

/** How long a command waits for the lease. That of a killed command expires after 5 s. */
const LEASE_WAIT_MS = 15_000
const LEASE_RETRY_MS = 20
/** What the errors of a disk mean, for people. Both the lease and the file need room. */
const REFUSALS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota of the disk is used up',
  EROFS: 'the file system is read-only',
}

interface Resumed {
  readonly ended: readonly Pause[]
  readonly left: Pauses
}

/**
 * Pauses a spool, or its tasks with one pair. A pause of the same tasks is replaced. The pause is on disk when this resolves.
 *
 * @param spool its real path
 * @returns everything that is paused now
 * @throws Error if the pause cannot be written, also if the file there cannot be read, or is damaged and pauses the whole spool
 */
export function pauseSpool(spool: string, pause: Pause): Promise<Pauses> {
  return alone(spool, bytes => {
    const { pauses, fault, isUnread } = readPauses(bytes)
    if (isUnread) throw new Error(`${fault}, so it is unknown what is paused, and nothing was changed`)
    if (fault !== undefined)
      throw new Error(`${fault}, so the whole spool is paused; spoold resume --all ends that`)
    const others = lastingPauses(pauses, Date.now()).filter(({ pair }) => !isSamePair(pair, pause.pair))
    writePauses(bytes, [...others, pause])
    return { pauses: [...others, pause] }
  })
}

/**
 * Ends the pause of one pair, of the whole spool (null), or all.
 *
 * @param spool its real path
 */
export function resumeSpool(spool: string, which: PausedPair | null | 'all'): Promise<Resumed> {
  return alone(spool, bytes => {
    const { pauses, fault } = readPauses(bytes)
    if (fault !== undefined && which !== 'all')
      throw new Error(`${fault}; look at it, and end all pauses with --all`)
    const lasting = lastingPauses(pauses, Date.now())
    const isEnded = ({ pair }: Pause) => which === 'all' || isSamePair(pair, which)
    const left = lasting.filter(each => !isEnded(each))
    if (left.length > 0) writePauses(bytes, left)
    else remove(bytes)
    return { ended: lasting.filter(isEnded), left: { pauses: left } }
  })
}

function remove(spool: string): void {
  const state = findState(spool)
  if (state === undefined) return
  const path = toFsPath(`${state}/paused`)
  try {
    if (lstatSync(path)?.isDirectory() === true) rmdirSync(path)
    else unlinkSync(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOTEMPTY')
      throw new Error(`${displayName(pausesPath(spool))} is a directory with files in it: move it away`)
    if (errnoOf(error) !== 'ENOENT') throw error
  }
}

/** Changes the pauses while no other command does. */
async function alone<T>(spool: string, act: (bytes: string) => T): Promise<T> {
  const bytes = toByteString(spool)
  try {
    const lease = await waitForLease(spool)
    try {
      const result = act(bytes)
      const state = findState(bytes)
      if (state !== undefined) await syncDirectory(state)
      return result
    } finally {
      await lease.release()
    }
  } catch (error) {
    const why = REFUSALS[errnoOf(error) ?? '']
    throw why === undefined ? error : new Error(`nothing has changed: ${why} (${errnoOf(error)})`)
  }
}

async function waitForLease(spool: string) {
  const deadline = performance.now() + LEASE_WAIT_MS
  for (;;) {
    const lease = await takeSpoolLease(spool, 'paused', { lost() {}, renewed() {} })
    if (lease !== undefined) return lease
    if (performance.now() > deadline)
      throw new Error('another command has been changing the pauses for too long')
    await sleep(LEASE_RETRY_MS)
  }
}

/**
 * The time between two looks: a pause counts within a second. A `stat` costs 50 µs, and the largest file 200 µs more; a watch on
 * `.spoold` would report every record of a failed task, and may be refused.
 */
const LOOK_MS = 500

/**
 * Follows `.spoold/paused`. A pause with an end is over when the clock first says so, and does not come back if the
 * clock is set back later.
 */
export class PauseWatch {
  readonly #spool: string
  readonly #changed: (pauses: Pauses) => void
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #content = JSON.stringify(NO_PAUSES)
  #pauses: Pauses = NO_PAUSES
  #reported = describePauses(NO_PAUSES)

  /** @param spool its real path, a byte string @param changed called with what is paused from now on */
  constructor(spool: string, changed: (pauses: Pauses) => void) {
    this.#spool = spool
    this.#changed = changed
  }

  /** Resolves after the first look. */
  async start(): Promise<void> {
    await this.#look()
    this.#lookLater()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #lookLater(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#look().then(() => this.#lookLater()), LOOK_MS)
  }

  async #look(): Promise<void> {
    const found = (await this.#isThere()) ? readPauses(this.#spool) : NO_PAUSES
    if (this.#isClosed) return
    const content = JSON.stringify(found)
    if (content !== this.#content) this.#pauses = found // if nothing has changed, pauses that are over stay over
    this.#content = content
    const { pauses, fault } = this.#pauses // without isUnread: who gives out tasks has to take a fault for a pause of all
    this.#pauses = { ...(fault === undefined ? {} : { fault }), pauses: lastingPauses(pauses, Date.now()) }
    const now = describePauses(this.#pauses)
    if (now === this.#reported) return
    this.#reported = now
    this.#changed(this.#pauses)
  }

  /** Asks in a thread first: while the disk stalls, the read, which would hold up this process, is not begun. */
  #isThere(): Promise<boolean> {
    return lstat(toFsPath(pausesPath(this.#spool))).then(
      () => true,
      error => errnoOf(error) !== 'ENOENT',
    )
  }
}
