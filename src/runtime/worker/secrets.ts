import type { Hide } from '../../formats/protocol/hide.js'
import type { Run } from './run.js'

/** In a larger body nothing is looked for that an error could quote. */
const MOST_BODY_BYTES = 4 * 1024 * 1024
/** What is kept of runs that have ended. Each text that this process shows is searched for it. */
const MOST_PAST = { values: 256, chars: 64 * 1024 }

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
    if (!this.#hide.isOn) return text
    this.#all ??= [...new Set([...this.#past, ...[...this.#running.values()].flat()])].sort(
      (a, b) => b.length - a.length,
    )
    return this.#hide.text(text, this.#all)
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
