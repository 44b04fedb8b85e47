import { quietly } from '../../base/errors.js'
import { baseName, prefixOf, type Ref, toByteString } from '../../base/task/ref.js'
import { type Watch, watchDirectory } from '../../system/files/directory-watch.js'
import { controlSocketsOf } from '../control/client.js'
import { fateOf } from '../spool/admin/fate.js'
import type { Ended } from '../task-store.js'
import { type Word, WordOfDaemon } from './word-of-daemon.js'

interface Awaited {
  /** Of its file, once it was seen. */
  inode?: number
  isMissing?: boolean
}

/** The directory is looked at this often at least: watch events are only hints, and may be refused. */
const LOOK_MS = 1000
/** How long after the file of a task the word of its daemon may come. */
const WORD_MS = 250
/** Looking takes at most this share of the time, however many tasks there are. */
const SHARE = 10
/** More priorities than this are only looked at. */
const MOST_WATCHES = 64

/**
 * Waits for tasks of one spool. Its daemons say how they end. What they do not say, and all of it where no daemon answers,
 * shows in the directory.
 */
export class SpoolWaiter {
  readonly #spool: string
  readonly #bytes: string
  readonly #waiting: Map<Ref, Awaited>
  readonly #tell: (ref: Ref, how: Ended) => void
  /** By socket. */
  readonly #words = new Map<string, WordOfDaemon>()
  readonly #watches = new Map<string, Watch>()
  #wake = () => {}

  /** @param spool its real path @param tell called once per task */
  constructor(spool: string, refs: readonly Ref[], tell: (ref: Ref, how: Ended) => void) {
    this.#spool = spool
    this.#bytes = toByteString(spool)
    this.#waiting = new Map(refs.map(ref => [ref, {}]))
    this.#tell = tell
  }

  /** Resolves when all tasks have ended, or when it is aborted. @returns those that have not ended */
  async run(signal: AbortSignal): Promise<Ref[]> {
    const wake = () => this.#wake()
    signal.addEventListener('abort', wake)
    for (;;) {
      await this.#listen()
      const beganAt = performance.now()
      const isLast = signal.aborted
      const isWordDue = this.#lookAtAll(isLast)
      if (this.#waiting.size === 0 || isLast) break
      this.#watch()
      const tookMs = performance.now() - beganAt
      await this.#rest(Math.max(isWordDue ? WORD_MS : LOOK_MS, SHARE * tookMs), signal)
    }
    signal.removeEventListener('abort', wake)
    for (const word of this.#words.values()) word.close()
    for (const watch of this.#watches.values()) watch.close()
    return [...this.#waiting.keys()]
  }

  /** Listens to every daemon that has come since the last look. */
  async #listen(): Promise<void> {
    const fresh: WordOfDaemon[] = []
    const sockets = quietly(() => controlSocketsOf(this.#spool), []) // they may be closed to us
    for (const path of sockets) {
      if (this.#words.has(path)) continue
      const word = new WordOfDaemon(path, this.#spool, [...this.#waiting.keys()], said => this.#hear(said))
      this.#words.set(path, word)
      fresh.push(word)
      void word.ended.then(() => this.#words.delete(path))
    }
    await Promise.all(fresh.map(({ begun }) => begun))
  }

  /** A daemon that ends, or that has only a dead socket left, says nothing. */
  get #isTold(): boolean {
    return [...this.#words.values()].some(({ isListening }) => isListening)
  }

  #hear({ done, dead }: Word): void {
    for (const ref of done) this.#end(ref, { kind: 'done' })
    for (const ref of dead) {
      const fate = fateOf(this.#bytes, ref, this.#waiting.get(ref)?.inode)
      this.#end(ref, { kind: 'dead', letter: fate.kind === 'dead' ? fate.letter : undefined })
    }
    if (this.#waiting.size === 0) this.#wake()
  }

  /** @returns whether a daemon's word is awaited for a file that is gone */
  #lookAtAll(isLast = false): boolean {
    let isWordDue = false
    for (const ref of this.#waiting.keys()) if (this.#look(ref, isLast)) isWordDue = true
    return isWordDue
  }

  #look(ref: Ref, isLast = false): boolean {
    const awaited = this.#waiting.get(ref)
    if (awaited === undefined) return false
    const fate = fateOf(this.#bytes, ref, awaited.inode)
    if (fate.kind === 'there') {
      awaited.inode = fate.inode
      awaited.isMissing = false
    } else if (fate.kind === 'dead') this.#end(ref, { kind: 'dead', letter: fate.letter })
    else if (this.#isTold && awaited.isMissing !== true && !isLast) awaited.isMissing = true
    else this.#end(ref, { kind: awaited.inode === undefined ? 'unknown' : 'gone' })
    return awaited.isMissing === true
  }

  #end(ref: Ref, how: Ended): void {
    if (this.#waiting.delete(ref)) this.#tell(ref, how)
  }

  /** A daemon says more, and sooner; so the directory is watched only while there is none. */
  #watch(): void {
    const wanted = this.#isTold ? [] : [...new Set([...this.#waiting.keys()].map(prefixOf))]
    const chosen = new Set(wanted.slice(0, MOST_WATCHES))
    for (const [prefix, watch] of this.#watches)
      if (!chosen.has(prefix)) {
        watch.close()
        this.#watches.delete(prefix)
      }
    for (const prefix of chosen) if (!this.#watches.has(prefix)) this.#watchOne(prefix)
  }

  #watchOne(prefix: string): void {
    const lost = () => {
      this.#watches.get(prefix)?.close()
      this.#watches.delete(prefix)
    }
    try {
      const path = `${this.#bytes}/${prefix}`
      this.#watches.set(
        prefix,
        watchDirectory(path, {
          event: name => {
            if (name === null || name === baseName(path)) return lost()
            this.#look(prefix + name)
            if (this.#waiting.size === 0) this.#wake()
          },
          lost,
        }),
      )
      this.#lookAtAll() // what went before the watch began
    } catch {} // refused, or gone: the next look knows
  }

  #rest(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
      if (this.#waiting.size === 0 || signal.aborted) this.#wake()
    })
  }
}
