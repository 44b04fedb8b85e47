import type { Hide } from '../../formats/protocol/hide.js'
import type { Run } from './run.js'

/** The most bytes of a body. A larger one is not searched for hidden values. */
const MOST_BODY_BYTES = 4 * 1024 * 1024
/** How much is kept of runs that have ended. It is bounded because each text that this process shows is searched for it. */
const MOST_PAST = { values: 256, chars: 64 * 1024 }
/** The most characters at the end of a text that are taken for the beginning of a hidden value. */
const MOST_BEGUN_CHARS = 4096

/**
 * The hidden values of the tasks that run in this process, and of the last tasks that ran, because a timer, a promise or a thread
 * that a task has left behind may quote them without their keys.
 */
export class Secrets {
  readonly #hide: Hide
  readonly #running = new Map<Run, readonly string[]>()
  /** The values of runs that have ended, the latest last. */
  readonly #past = new Set<string>()
  #pastChars = 0
  /** All hidden values, the longest first; undefined: not computed since the last change. */
  #all: readonly string[] | undefined

  constructor(hide: Hide) {
    this.#hide = hide
  }

  /** Call it before the code of a run is called. */
  began(run: Run): void {
    if (!this.#hide.isOn) return
    this.#running.set(run, this.#valuesOf(run))
    this.#all = undefined
  }

  ended(run: Run): void {
    if (!this.#hide.isOn) return
    for (const value of this.#running.get(run) ?? []) this.#keep(value)
    this.#running.delete(run)
    for (const oldest of this.#past) {
      if (this.#past.size <= MOST_PAST.values && this.#pastChars <= MOST_PAST.chars) break
      this.#drop(oldest)
    }
    this.#all = undefined
  }

  /** Returns what a run's handler said or threw, without the run's values. Values of other tasks are in it only by chance. */
  withoutThoseOf(run: Run, text: string): string {
    return this.#hide.text(text, this.#running.get(run))
  }

  /** Returns a text of this process without the values of any task. */
  withoutAny(text: string): string {
    return this.#hide.isOn ? this.#hide.text(text, this.#known()) : text
  }

  /**
   * Returns how many characters at the end of a text have to be held back, because with the next piece they may turn out to be
   * hidden. A hidden value that reaches into these characters is in them from its start.
   */
  begunIn(text: string): number {
    if (!this.#hide.isOn) return 0
    const all = this.#known()
    let start = text.length - beginningAt(text, all)
    for (let before = Number.NaN; before !== start && text.length - start <= MOST_BEGUN_CHARS; ) {
      before = start
      for (const value of all) start = startAround(text, value, start)
      const tail = Math.max(0, text.length - MOST_BEGUN_CHARS)
      if (start > tail) start = tail + this.#hide.startOfPair(text.slice(tail), start - tail)
    }
    return text.length - start
  }

  #known(): readonly string[] {
    this.#all ??= [...new Set([...this.#past, ...[...this.#running.values()].flat()])].sort(
      (a, b) => b.length - a.length,
    )
    return this.#all
  }

  #valuesOf({ claim }: Run): string[] {
    try {
      return this.#hide.secretsIn(
        claim.vars,
        claim.bodyBytes > MOST_BODY_BYTES ? undefined : claim.readBody(),
      )
    } catch {
      return this.#hide.secretsIn(claim.vars) // the body cannot be read
    }
  }

  #keep(value: string): void {
    this.#drop(value)
    this.#past.add(value)
    this.#pastChars += value.length
  }

  #drop(value: string): void {
    if (this.#past.delete(value)) this.#pastChars -= value.length
  }
}

/** Returns how many characters at the end of a text could begin one of these values. @param all the values, the longest first */
function beginningAt(text: string, all: readonly string[]): number {
  const values = text.endsWith('\n') ? all.filter(value => value.includes('\n')) : all
  const most = Math.min((values[0]?.length ?? 1) - 1, text.length, MOST_BEGUN_CHARS)
  for (let count = most; count > 0; count--) {
    const end = text.slice(-count)
    if (values.some(value => value.length > count && value.startsWith(end))) return count
  }
  return 0
}

/** Returns the start of the occurrence of a value that a cut would split, found as for hiding; the cut if it splits none. */
function startAround(text: string, value: string, cut: number): number {
  if (cut === text.length) return cut
  for (let at = text.indexOf(value); at >= 0 && at < cut; at = text.indexOf(value, at + value.length))
    if (at + value.length > cut) return at
  return cut
}
