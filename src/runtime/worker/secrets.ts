import type { Hide } from '../../formats/protocol/hide.js'
import type { Run } from './run.js'

/** In a larger body nothing is looked for that an error could quote. */
const MOST_BODY_BYTES = 4 * 1024 * 1024
/** What is kept of runs that have ended. Each text that this process shows is searched for it. */
const MOST_PAST = { values: 256, chars: 64 * 1024 }
/** Of a longer value the first part is not looked for at the end of a text. */
const MOST_BEGUN_CHARS = 4096

/**
 * The hidden values of the tasks that run in this process, and of the last ones that did: a timer, a promise or a thread
 * that a task has left behind may quote them without their keys.
 */
export class Secrets {
  readonly #hide: Hide
  readonly #running = new Map<Run, readonly string[]>()
  /** Of runs that have ended, the latest last. */
  readonly #past = new Set<string>()
  #pastChars = 0
  /** All of them, the longest first; undefined: not known since the last change. */
  #all: readonly string[] | undefined

  constructor(hide: Hide) {
    this.#hide = hide
  }

  /** Before its code runs. */
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

  /** What its own handler said or threw. Values of other tasks are in it by chance. */
  withoutThoseOf(run: Run, text: string): string {
    return this.#hide.text(text, this.#running.get(run))
  }

  /** What comes from this process, of whichever task. */
  withoutAny(text: string): string {
    return this.#hide.isOn ? this.#hide.text(text, this.#known()) : text
  }

  /** How many characters at the end of a text could be hidden as soon as the next piece is known; it begins no later than what is. */
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
      return this.#hide.secretsIn(claim.vars) // its body cannot be read
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

/** How many characters at the end of a text could begin one of these values, the longest of which is the first. */
function beginningAt(text: string, all: readonly string[]): number {
  const values = text.endsWith('\n') ? all.filter(value => value.includes('\n')) : all
  const most = Math.min((values[0]?.length ?? 1) - 1, text.length, MOST_BEGUN_CHARS)
  for (let count = most; count > 0; count--) {
    const end = text.slice(-count)
    if (values.some(value => value.length > count && value.startsWith(end))) return count
  }
  return 0
}

/** The start of the value that a cut would be in, where all of them are found as for hiding; the cut itself if it is in none. */
function startAround(text: string, value: string, cut: number): number {
  if (cut === text.length) return cut
  for (let at = text.indexOf(value); at >= 0 && at < cut; at = text.indexOf(value, at + value.length))
    if (at + value.length > cut) return at
  return cut
}
