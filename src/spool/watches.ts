import { messageOf } from '../base/errors.js'
import type { Emitter } from '../events/emitter.js'
import { displayName, type Ref } from '../task/ref.js'
import { isPriorityDirectory, isTaskName, type NameRules } from './file-name.js'
import { type Watch, type WatchChoice, watchDirectory } from './watch.js'

export interface WatchesOptions {
  readonly spool: string
  readonly rules: NameRules
  readonly frequencyMs: number
  readonly watch: WatchChoice
}

export interface WatchesListener {
  /** This entry may have become a task. */
  changed(ref: Ref, renamed: boolean): void
  /** Something happened that only a scan can tell. */
  unclear(): void
}

/** The kernel's event queue holds 16,384 by default and overflows in silence: after so many, what happened is unclear. */
const EVENTS_A_SCAN = 4096

interface Followed {
  readonly inode: number
  /** undefined while it is being opened */
  watch: Watch | undefined
}

/** The watches on a spool's directories: one on the spool itself ('') and one on each priority (`5/`). */
export class Watches {
  readonly #options: WatchesOptions
  readonly #events: Emitter
  readonly #listener: WatchesListener
  readonly #followed = new Map<string, Followed>()
  readonly #told = new Set<string>()
  #heard = 0

  constructor(options: WatchesOptions, events: Emitter, listener: WatchesListener) {
    this.#options = options
    this.#events = events
    this.#listener = listener
  }

  /** @returns whether a watch was opened now: what happened in the directory before that is unclear */
  async follow(prefix: string, inode: number): Promise<boolean> {
    const before = this.#followed.get(prefix)
    if (before?.inode === inode || this.#options.watch === 'off') return false
    this.#drop(prefix)
    const followed: Followed = { inode, watch: undefined }
    this.#followed.set(prefix, followed)
    const { spool, watch: choice } = this.#options
    try {
      const watch = await watchDirectory(prefix === '' ? spool : `${spool}/${prefix.slice(0, -1)}`, choice, {
        event: (name, renamed) => this.#hear(prefix, name, renamed),
        lost: error => this.#lose(prefix, error),
      })
      if (this.#followed.get(prefix) === followed) followed.watch = watch
      else watch.close()
      return true
    } catch (error) {
      this.#lose(prefix, error)
      return false
    }
  }

  /** Ends the watches on priorities that are gone. */
  keepOnly(prefixes: ReadonlySet<string>): void {
    for (const prefix of this.#followed.keys()) if (prefix !== '' && !prefixes.has(prefix)) this.#drop(prefix)
  }

  /** A scan begins: it sees what the events so far were about. */
  scanBegins(): void {
    this.#heard = 0
  }

  close(): void {
    for (const prefix of this.#followed.keys()) this.#drop(prefix)
  }

  #hear(prefix: string, name: string | null, renamed: boolean): void {
    this.#heard++
    if (name === null || this.#heard === EVENTS_A_SCAN || this.#isDirectoryNews(prefix, name, renamed))
      this.#listener.unclear()
    if (name !== null && isTaskName(name, this.#options.rules)) this.#listener.changed(prefix + name, renamed)
  }

  /** A priority came or went, or the spool itself did: inotify tells that with the spool's own name. */
  #isDirectoryNews(prefix: string, name: string, renamed: boolean): boolean {
    if (!renamed) return false
    const isSpoolItself = prefix === '' && this.#options.spool.endsWith(`/${displayName(name)}`)
    return isSpoolItself || (this.#options.rules.ordered && /^[0-9]/.test(name) && isPriorityDirectory(name))
  }

  #lose(prefix: string, error: unknown): void {
    this.#drop(prefix)
    this.#listener.unclear()
    if (this.#told.has(prefix)) return
    this.#told.add(prefix)
    const { spool, frequencyMs } = this.#options
    this.#events.emit('watch-lost', { spool, error: messageOf(error), frequencyMs })
  }

  #drop(prefix: string): void {
    this.#followed.get(prefix)?.watch?.close()
    this.#followed.delete(prefix)
  }
}
