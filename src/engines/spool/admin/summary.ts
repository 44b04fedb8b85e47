import { statfs } from 'node:fs/promises'
import { Slices } from '../../../base/each.js'
import { BURY_REASONS, type BuryReason } from '../../../base/task/outcome.js'
import { type Ref, toFsPath } from '../../../base/task/ref.js'
import type { DeadStats, DiskStats, UpkeepStats } from '../../contracts/upkeep.js'
import { DeadLetters } from '../dead-letters.js'
import { recordNames } from '../records.js'

/** How many dead letters are read, and how many records are counted, at most. */
const MOST_FILES = 10_000
/**
 * The next look waits at least this long, and PAUSE times as long as the last one used a processor. Time that others had of
 * a busy machine is no cost of the look.
 */
const MIN_PAUSE_MS = 1000
const PAUSE = 20

/** The reason of one dead letter, and when it was buried. */
interface Cause {
  readonly reason: BuryReason
  readonly buriedAt: number
}

type Counts = Pick<UpkeepStats, 'dead' | 'records'>

/** The figures of one spool's `.spoold`, read on request, and not more often than is cheap. */
export class SpoolSummary {
  readonly #spool: string
  readonly #letters: DeadLetters
  /** Keyed by the name of the letter, so that each letter is read only once. */
  #known = new Map<Ref, Cause>()
  #last: Promise<Counts> | undefined
  /** On the clock of `performance.now()`. */
  #nextAt = Number.NEGATIVE_INFINITY

  /** @param spool its real path, a byte string */
  constructor(spool: string) {
    this.#spool = spool
    this.#letters = new DeadLetters(spool)
  }

  /**
   * Returns what `.spoold` holds, and the room on the disk. What cannot be read counts as empty: another user's `.spoold` is not
   * ours to see. Never resolves while the disk hangs, as a dead NFS server does: one of Node's threads waits for it, and not this one.
   */
  async take(): Promise<Counts & Pick<UpkeepStats, 'disk'>> {
    const disk = await diskOf(this.#spool)
    if (this.#last === undefined || performance.now() >= this.#nextAt) {
      this.#nextAt = Number.POSITIVE_INFINITY
      this.#last = this.#look()
    }
    return { ...(await this.#last), disk }
  }

  async #look(): Promise<Counts> {
    const before = process.cpuUsage()
    const [dead, records] = await Promise.all([
      this.#deadLetters().catch(() => NO_DEAD),
      this.#records().catch(() => NO_RECORDS),
    ])
    const { user, system } = process.cpuUsage(before)
    this.#nextAt = performance.now() + Math.max(MIN_PAUSE_MS, (PAUSE * (user + system)) / 1000)
    return { dead, records }
  }

  async #deadLetters(): Promise<DeadStats> {
    const read = new Map<Ref, Cause>()
    const slices = new Slices()
    let isWhole = true
    for await (const name of this.#letters.names()) {
      if (read.size >= MOST_FILES) {
        isWhole = false
        break
      }
      read.set(name, this.#known.get(name) ?? this.#reasonOf(name))
      await slices.rest()
    }
    this.#known = read
    return { isWhole, ...summed(read.values()) }
  }

  #reasonOf(name: Ref): Cause {
    const { reason = 'unknown', buriedAt = Number.NaN } = this.#letters.read(name) ?? {}
    return { reason: BURY_REASONS.includes(reason) ? reason : 'unknown', buriedAt }
  }

  async #records(): Promise<UpkeepStats['records']> {
    let count = 0
    for await (const _name of recordNames(this.#spool))
      if (++count >= MOST_FILES) return { count, isWhole: false }
    return { count, isWhole: true }
  }
}

const NO_RECORDS = { count: 0, isWhole: true }
const NO_DEAD: DeadStats = { count: 0, isWhole: true, byReason: {}, oldestMs: null, newestMs: null }

function summed(letters: Iterable<Cause>) {
  const byReason: Record<string, number> = {}
  let [count, oldest, newest] = [0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const { reason, buriedAt } of letters) {
    count++
    byReason[reason] = (byReason[reason] ?? 0) + 1
    if (buriedAt < oldest) oldest = buriedAt
    if (buriedAt > newest) newest = buriedAt
  }
  const known = (ms: number) => (Number.isFinite(ms) ? ms : null)
  return { count, byReason, oldestMs: known(oldest), newestMs: known(newest) }
}

/** @param path a byte string @returns null if it cannot be found out */
async function diskOf(path: string): Promise<DiskStats | null> {
  try {
    const { bsize, bavail, blocks, ffree, files } = await statfs(toFsPath(path))
    return {
      freeBytes: bsize * bavail,
      totalBytes: bsize * blocks,
      freeInodes: ffree,
      totalInodes: files,
    }
  } catch {
    return null
  }
}
