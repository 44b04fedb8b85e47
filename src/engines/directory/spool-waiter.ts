import { quietly } from '../../base/errors.js'
import { type Ref, toByteString } from '../../base/task/ref.js'
import { controlSocketsOf } from '../control/client.js'
import { fateOf } from '../spool/admin/fate.js'
import type { Ended } from '../task-store.js'
import { type Word, WordOfDaemon } from './word-of-daemon.js'

interface Awaited {
  /** Of its file, once it was seen. */
  inode?: number
  isMissing?: boolean
}

/** The directory is looked at this often, as long as no daemon says how tasks end. */
const LOOK_MS = 100
/** And where one does: others may end them, too. */
const LOOK_BESIDE_MS = 1000
/** How long after the file of a task the word of its daemon may come. */
const WORD_MS = 250
/** Looking takes at most this share of the time, however many tasks there are. */
const SHARE = 10

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
      const tookMs = performance.now() - beganAt
      const pauseMs = isWordDue ? WORD_MS : this.#isTold ? LOOK_BESIDE_MS : LOOK_MS
      await this.#rest(Math.max(pauseMs, SHARE * tookMs), signal)
    }
    signal.removeEventListener('abort', wake)
    for (const word of this.#words.values()) word.close()
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
  #lookAtAll(isLast: boolean): boolean {
    let isWordDue = false
    for (const ref of this.#waiting.keys()) if (this.#look(ref, isLast)) isWordDue = true
    return isWordDue
  }

  #look(ref: Ref, isLast: boolean): boolean {
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
