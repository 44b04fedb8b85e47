import { quietly } from '../../base/errors.js'
import { type Ref, toByteString } from '../../base/task/ref.js'
import { controlSocketsOf } from '../control/client.js'
import { fateOf } from '../spool/admin/fate.js'
import type { Ended } from '../task-store.js'
import { type Word, WordOfDaemon } from './word-of-daemon.js'

interface Awaited {
  /** The inode of the task's file, once the file was seen. */
  inode?: number
  /** True once a look did not find the file while a daemon's word about the task could still come. */
  isMissing?: boolean
}

/** How often the directory is looked at while no daemon says how tasks end. */
const LOOK_MS = 100
/** How often it is looked at while a daemon says so: other processes may end tasks, too. */
const LOOK_BESIDE_MS = 1000
/** How long after a task's file has gone the daemon's word about the task may come. */
const WORD_MS = 250
/** Each pause is at least this many times as long as the look before it, however many tasks there are. */
const SHARE = 10
/** The most daemons that this process listens to: each takes a connection. Of the tasks of others, it sees only that they end. */
const MOST_WORDS = 32
let words = 0

/**
 * Waits for tasks of one spool to end. Its daemons say how they end. What no daemon says is read from the directory, and so
 * is everything where no daemon answers.
 */
export class SpoolWaiter {
  readonly #spool: string
  readonly #bytes: string
  readonly #waiting: Map<Ref, Awaited>
  readonly #tell: (ref: Ref, how: Ended) => void
  /** Keyed by socket. */
  readonly #words = new Map<string, WordOfDaemon>()
  #wake = () => {}

  /** @param spool its real path @param tell called once per task */
  constructor(spool: string, refs: readonly Ref[], tell: (ref: Ref, how: Ended) => void) {
    this.#spool = spool
    this.#bytes = toByteString(spool)
    this.#waiting = new Map(refs.map(ref => [ref, {}]))
    this.#tell = tell
  }

  /**
   * Resolves when all tasks have ended, or when `signal` is aborted.
   *
   * @returns the tasks that have not ended
   * @throws the file system's error if it does not say whether a task is there
   */
  async run(signal: AbortSignal): Promise<Ref[]> {
    const wake = () => this.#wake()
    signal.addEventListener('abort', wake)
    try {
      await this.#lookUntilEnded(signal)
    } finally {
      signal.removeEventListener('abort', wake)
      for (const word of this.#words.values()) word.close()
    }
    return [...this.#waiting.keys()]
  }

  async #lookUntilEnded(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#listen()
      const beganAt = performance.now()
      const isLast = signal.aborted
      const isWordDue = this.#lookAtAll(isLast)
      if (this.#waiting.size === 0 || isLast) return
      const tookMs = performance.now() - beganAt
      const pauseMs = isWordDue ? WORD_MS : this.#isTold ? LOOK_BESIDE_MS : LOOK_MS
      await this.#rest(Math.max(pauseMs, SHARE * tookMs), signal)
    }
  }

  /** Listens to every daemon that has come since the last look. */
  async #listen(): Promise<void> {
    const fresh: WordOfDaemon[] = []
    const sockets = quietly(() => controlSocketsOf(this.#spool), []) // the directory of the sockets may be closed to us
    for (const path of sockets) {
      if (this.#words.has(path) || words === MOST_WORDS) continue
      const word = new WordOfDaemon(path, this.#spool, [...this.#waiting.keys()], said => this.#hear(said))
      this.#words.set(path, word)
      fresh.push(word)
      words++
      void word.ended.then(() => {
        words--
        this.#words.delete(path)
      })
    }
    await Promise.all(fresh.map(({ begun }) => begun))
  }

  /** True while a daemon says how tasks end. A daemon that ends, or that has left only a dead socket, does not. */
  get #isTold(): boolean {
    return [...this.#words.values()].some(({ isListening }) => isListening)
  }

  #hear({ done, dead }: Word): void {
    for (const ref of done) this.#end(ref, { kind: 'done' })
    for (const ref of dead) {
      const fate = quietly(() => fateOf(this.#bytes, ref, this.#waiting.get(ref)?.inode))
      this.#end(ref, { kind: 'dead', letter: fate?.kind === 'dead' ? fate.letter : undefined })
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
