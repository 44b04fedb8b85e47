import { appendFileSync, writeFileSync } from 'node:fs'
import { isAlive } from '../process.js'
import { Tail } from '../witness.js'
import type { HeldTask } from './kill.js'

/** What killed processes had, and what handlers say: what a verdict is found by. */
export class Evidence {
  readonly journal: Tail
  /** How often a task's process was killed by us while it ran alone, which may count as a crash. */
  readonly charges = new Map<string, number>()
  /** How often a task's process was killed by us while it had the file. */
  readonly cuts = new Map<string, number>()
  /** What ran without a mark on disk. */
  readonly unmarked: string[] = []
  readonly #file: string
  readonly #began = performance.now()

  /** @param journal the file of the handlers' lines, to which ours are added */
  constructor(journal: string) {
    this.#file = journal
    writeFileSync(journal, '')
    this.journal = new Tail(journal)
  }

  note(text: string): void {
    const at = Math.round(performance.now() - this.#began)
    appendFileSync(this.#file, `# ${at} ms: ${text}\n`)
  }

  /** A process is killed that has these files. */
  killed(what: string, held: readonly HeldTask[]): void {
    const running = this.#inFlight()
    this.#cut(held)
    for (const { n, state } of held) {
      if ((state & BEGUN_MASK) === BEGUN_ALONE) this.#charge(n)
      if ((state & BEGUN_ALONE) === 0 && running.has(n)) this.unmarked.push(n)
    }
    this.note(`kill ${what}, which has ${listOf(held)}`)
  }

  /**
   * A process is killed that runs what another one has. It runs one task at a time, and its parent knows which: that one
   * may be counted. Between two tasks it may be any.
   */
  killedBelow(what: string, pid: number, held: readonly HeldTask[]): void {
    const running = this.#inFlight()
    this.#cut(held)
    const its = held.filter(({ n }) => running.get(n) === String(pid))
    for (const { n } of its.length > 0 ? its : held) this.#charge(n)
    this.note(`kill ${what}, whose parent has ${listOf(held)}`)
  }

  #charge(n: string): void {
    this.charges.set(n, (this.charges.get(n) ?? 0) + 1)
  }

  /** It is going to be killed in a way that counts for no crash: the daemon was asked to, or it is none of ours. */
  toBeKilled(what: string, held: readonly HeldTask[]): void {
    this.#cut(held)
    this.note(`${what}, which has ${listOf(held)}`)
  }

  #cut(held: readonly HeldTask[]): void {
    for (const { n } of held) this.cuts.set(n, (this.cuts.get(n) ?? 0) + 1)
  }

  /** The tasks that have begun and not ended, as their handlers say, and the process of each, which lives. */
  #inFlight(): Map<string, string> {
    const found = new Map<string, string>()
    for (const line of this.journal.read().slice(-RECENT_LINES)) {
      const [word, n = '', pid = ''] = line.split(' ')
      if (word === 'want') found.set(n, pid)
      else if (word === 'end') found.delete(n)
    }
    for (const [n, pid] of found) if (!isAlive(Number(pid))) found.delete(n)
    return found
  }
}

/** Of the state byte: begun, and not beside others. */
const BEGUN_ALONE = 0x80
const BEGUN_MASK = 0x84
const RECENT_LINES = 2000

const listOf = (held: readonly HeldTask[]) =>
  held.map(({ n, path, state }) => `${n} (${state.toString(16)}, ${path})`).join(', ') || 'nothing'
