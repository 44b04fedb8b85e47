import { readdirSync } from 'node:fs'
import { Alarm } from '../../../base/clock.js'
import { errnoOf, messageOf, quietly } from '../../../base/errors.js'
import type { Emitter } from '../../../base/events/emitter.js'
import { orderedPart } from '../../../base/heap.js'
import { baseName, displayName, type Ref, toFsPath } from '../../../base/task/ref.js'
import { statusOf } from '../../../system/files/anchored-path.js'
import { type Watch, watchDirectory } from '../../../system/files/directory-watch.js'
import { isSmall } from '../../../system/files/entries.js'
import { directoryOf, isSame, type Stamp, takeStampSync } from '../../../system/files/stamps.js'
import { isPriorityDirectory, isTaskName, type NameRules } from '../names.js'
import { compareVersions } from '../task-order.js'
import type { Listing } from './directories.js'

export interface WatchesOptions {
  readonly spool: string
  readonly rules: NameRules
  readonly frequencyMs: number
  /** How long to wait before retrying a refused watch; doubled each time, up to 10 minutes. */
  readonly refusedMs?: number
}

interface WatchesListener {
  /** This entry may have become a task. */
  changed(ref: Ref, renamed: boolean): void
  /** Something happened that only a scan can identify. */
  unclear(): void
}

/**
 * With this many events in one turn of the event loop, some may be missing. The kernel's queue holds 16,384 by default, and
 * overflows silently; one turn empties it, and other watches of this process share it.
 */
const EVENTS_PER_TURN = 8192
/**
 * With this many events in one turn, the watch is given up: somebody renames without rest, and fills the queue faster than it
 * is read, so that the turn would never end.
 */
const MOST_PER_TURN = 65_536
/** A watch takes kernel memory, and counts against a limit of the user; beyond this many, only stamps reveal changes. */
const MOST_WATCHES = 1024
/** Directories with this few entries are watched even during a long backlog, so that an urgent task is noticed at once. */
const FEW_ENTRIES = 1000
const REFUSED_MS = 60_000
const MOST_REFUSED_MS = 600_000

interface Followed {
  readonly inode: number
  readonly watch: Watch
}

interface Refused {
  readonly stamp: Stamp
  readonly delayMs: number
  /** On the clock of `performance.now()`. */
  readonly retryAt: number
}

/**
 * The watches on a spool's directories: one on the spool itself ('') and one on each of the most urgent priorities
 * (`5/`). They are opened without waiting. A refused watch is retried after minutes, by a timer of its own.
 */
export class Watches {
  readonly #options: WatchesOptions
  readonly #events: Emitter
  readonly #listener: WatchesListener
  readonly #followed = new Map<string, Followed>()
  readonly #refused = new Map<string, Refused>()
  readonly #alarm = new Alarm(() => this.#retry())
  /** For the report of a lost watch: the interval at which the spool is still scanned. */
  frequencyMs: number
  #isReported = false
  /** The number of events in this turn of the event loop. */
  #heard = 0

  constructor(options: WatchesOptions, events: Emitter, listener: WatchesListener) {
    this.#options = options
    this.frequencyMs = options.frequencyMs
    this.#events = events
    this.#listener = listener
  }

  /** The number of directories that are watched, and of those for which the system refused a watch. */
  get counts(): { readonly watched: number; readonly refused: number } {
    return { watched: this.#followed.size, refused: this.#refused.size }
  }

  /** Opens a watch on a directory before it is listed, so that later changes are noticed. */
  follow(prefix: string, stamp: Stamp): void {
    if (this.#isNew(prefix, stamp)) this.#open(prefix, stamp)
  }

  /** Watches the directories that were listed; watches on others end. @param few true to watch only those with few entries */
  followOnly(listing: Listing, few: boolean): void {
    const chosen = mostUrgent(few ? small(listing) : listing)
    for (const prefix of this.#followed.keys()) if (!chosen.has(prefix)) this.#drop(prefix)
    for (const prefix of this.#refused.keys()) if (!chosen.has(prefix)) this.#refused.delete(prefix)
    for (const [prefix, { stamp }] of chosen) this.#followLate(prefix, stamp)
    this.#tellIfBack()
  }

  close(): void {
    this.#alarm.clear()
    this.#refused.clear()
    for (const prefix of this.#followed.keys()) this.#drop(prefix)
  }

  #isNew(prefix: string, { inode }: Stamp): boolean {
    if (inode === 0 || this.#followed.get(prefix)?.inode === inode) return false
    return this.#refused.get(prefix)?.stamp.inode !== inode
  }

  /**
   * Opens a watch after the listing. What happened between the stamp and the watch is unclear, unless a second stamp is equal.
   */
  #followLate(prefix: string, stamp: Stamp): void {
    if (!this.#isNew(prefix, stamp) || !this.#open(prefix, stamp)) return
    if (!isSame(stamp, takeStampSync(directoryOf(this.#options.spool, prefix)))) this.#listener.unclear()
  }

  #open(prefix: string, stamp: Stamp): boolean {
    this.#drop(prefix)
    try {
      const watch = watchDirectory(directoryOf(this.#options.spool, prefix), {
        event: (name, renamed) => {
          if (this.#heard < MOST_PER_TURN) this.#hear(prefix, name, renamed)
          else this.#lose(prefix, stamp, new Error('names change there faster than they can be looked at'))
        },
        lost: error => this.#lose(prefix, stamp, error),
      })
      this.#followed.set(prefix, { inode: stamp.inode, watch })
      this.#refused.delete(prefix)
      return true
    } catch (error) {
      this.#refuse(prefix, stamp, error)
      return false
    }
  }

  #hear(prefix: string, name: string | null, renamed: boolean): void {
    if (this.#heard++ === 0)
      setImmediate(() => {
        this.#heard = 0
      })
    if (name !== null && name === ownName(this.#options.spool, prefix)) {
      if (renamed) this.#drop(prefix) // the directory was removed or moved, and its inode may be reused
      return this.#listener.unclear() // or its rights were changed; an entry with the same name is found by the scan
    }
    if (name === null || this.#heard === EVENTS_PER_TURN || this.#isDirectoryNews(name, renamed))
      this.#listener.unclear()
    if (name === null || this.#heard > EVENTS_PER_TURN) return // the scan looks at all that is there
    if (this.#isDirectoryNews(name, renamed)) this.#enter(`${prefix}${name}/`)
    if (isTaskName(name, this.#options.rules)) this.#listener.changed(prefix + name, renamed)
  }

  /** Opens and reads a new priority at once, because less urgent tasks would be given away until a scan finds it. */
  #enter(prefix: string): void {
    const path = directoryOf(this.#options.spool, prefix)
    const stamp = takeStampSync(path)
    if (!isSmall(stamp) || this.#followed.size >= MOST_WATCHES) return
    const isLink = quietly(() => statusOf(toFsPath(path)))?.isDirectory !== true
    if (isLink || !this.#isNew(prefix, stamp) || !this.#open(prefix, stamp)) return
    // none if the directory is gone again, or we may not enter it: the scan reports that
    const entries = quietly(() => readdirSync(toFsPath(path), 'latin1'), [])
    for (const entry of entries) this.#hear(prefix, entry, true)
  }

  /** True if a priority was created or removed. */
  #isDirectoryNews(name: string, renamed: boolean): boolean {
    return renamed && this.#options.rules.ordered && /^[0-9]/.test(name) && isPriorityDirectory(name)
  }

  #lose(prefix: string, stamp: Stamp, error: unknown): void {
    this.#drop(prefix)
    this.#refuse(prefix, stamp, error)
    this.#listener.unclear()
  }

  #refuse(prefix: string, stamp: Stamp, error: unknown): void {
    // the directory is gone; the next scan knows whether it is back
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return void this.#refused.delete(prefix)
    const before = this.#refused.get(prefix)?.delayMs
    const { refusedMs = REFUSED_MS, spool } = this.#options
    const delayMs = before === undefined ? refusedMs : Math.min(2 * before, MOST_REFUSED_MS)
    const retryAt = performance.now() + delayMs
    this.#refused.set(prefix, { stamp, delayMs, retryAt })
    this.#alarm.wakeAt(retryAt)
    if (this.#isReported) return
    this.#isReported = true
    this.#events.emit('watch-lost', {
      spool,
      of: 'file-system',
      prefix: displayName(prefix),
      error: messageOf(error),
      frequencyMs: this.frequencyMs,
    })
  }

  #retry(): void {
    const now = performance.now()
    for (const [prefix, { stamp, retryAt }] of this.#refused)
      if (retryAt > now) this.#alarm.wakeAt(retryAt)
      else if (this.#open(prefix, stamp)) this.#listener.unclear()
    this.#tellIfBack()
  }

  #tellIfBack(): void {
    if (!this.#isReported || this.#refused.size > 0 || !this.#followed.has('')) return
    this.#isReported = false
    this.#events.emit('watch-back', { spool: this.#options.spool, of: 'file-system' })
  }

  #drop(prefix: string): void {
    this.#followed.get(prefix)?.watch.close()
    this.#followed.delete(prefix)
  }
}

function ownName(spool: string, prefix: string): string {
  return baseName(directoryOf(spool, prefix))
}

function small(listing: Listing): Listing {
  return new Map([...listing].filter(([, { entries }]) => entries <= FEW_ENTRIES))
}

function mostUrgent(directories: Listing): Listing {
  if (directories.size <= MOST_WATCHES) return directories
  return new Map(orderedPart([...directories], 0, MOST_WATCHES, ([a], [b]) => compareVersions(a, b) < 0))
}
