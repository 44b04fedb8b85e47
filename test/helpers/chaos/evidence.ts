import { appendFileSync, writeFileSync } from 'node:fs'
import { isAlive } from '../process.js'
import { Tail } from '../witness.js'
import type { HeldTask } from './kill.js'

/** The evidence for the verdict: the tasks that killed processes held, and the handlers' journal. */
export class Evidence {
  readonly journal: Tail
  /** Per task: how often we killed its process while it ran alone, which may count as a crash. */
  readonly charges = new Map<string, number>()
  /** Per task: how often we killed its process while it had the file open. */
  readonly cuts = new Map<string, number>()
  /** Tasks that ran without a mark on disk. */
  readonly unmarked: string[] = []
  /** Tasks that ran without a lock. */
  readonly unlocked: string[] = []
  readonly #file: string
  readonly #hasRecordLocks: boolean
  readonly #began = performance.now()

  /** @param journal the file of the handlers' lines, which ours are added to */
  constructor(journal: string, hasRecordLocks: boolean) {
    this.#hasRecordLocks = hasRecordLocks
    this.#file = journal
    writeFileSync(journal, '')
    this.journal = new Tail(journal)
  }

  note(text: string): void {
    const at = Math.round(performance.now() - this.#began)
    appendFileSync(this.#file, `# ${at} ms: ${text}\n`)
  }

  /** Call it before a process that holds these files is killed. */
  killed(what: string, held: readonly HeldTask[]): void {
    const running = this.#inFlight()
    this.#cut(held)
    for (const { n, state, isLocked } of held) {
      if ((state & BEGUN_MASK) === BEGUN_ALONE) this.#charge(n)
      if ((state & BEGUN_ALONE) === 0 && running.has(n)) this.unmarked.push(n)
      if (this.#hasRecordLocks && !isLocked && running.has(n)) this.unlocked.push(n)
    }
    this.note(`kill ${what}, which has ${listOf(held)}`)
  }

  /**
   * Call it before a process is killed that runs tasks held by its parent. It runs one task at a time, which may be counted
   * as crashed. Between two tasks, it may be any of the held ones.
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

  /** Call it before a kill that does not count as a crash: one by the daemon at our request, or one of a uWSGI process. */
  toBeKilled(what: string, held: readonly HeldTask[]): void {
    this.#cut(held)
    this.note(`${what}, which has ${listOf(held)}`)
  }

  #cut(held: readonly HeldTask[]): void {
    for (const { n } of held) this.cuts.set(n, (this.cuts.get(n) ?? 0) + 1)
  }

  get isAnyRunning(): boolean {
    return this.#inFlight().size > 0
  }

  /** The tasks in flight according to the handlers, with the pids of those processes that are alive. */
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

/** Bits of the state byte: the run has begun, and not alongside others. */
const BEGUN_ALONE = 0x80
const BEGUN_MASK = 0x84
const RECENT_LINES = 2000

const listOf = (held: readonly HeldTask[]) =>
  held.map(({ n, path, state }) => `${n} (${state.toString(16)}, ${path})`).join(', ') || 'nothing'
