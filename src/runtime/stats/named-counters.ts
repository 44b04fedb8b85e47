import type { NamedRuns } from '../../base/task/report.js'
import { RateCounter } from './rates.js'
import type { NamedStats } from './snapshot.js'

/** Names beyond this number are counted together, because handlers may make up any number of names. */
const MOST_NAMES = 100
/** Stands for all further names together. No task has this name. */
const OTHERS = ''

interface Counters extends Omit<NamedRuns, 'slots'> {
  slots: number | null
  /** Runs that ended with their process. */
  killed: number
  readonly doneRate: RateCounter
  readonly failedRate: RateCounter
  /** The number of runs in progress, by the pid of their worker. */
  readonly running: Map<number, number>
}

/** What happened to the named tasks of one spool since its start. */
export class NamedCounters {
  readonly #byName = new Map<string, Counters>()

  told(pid: number, all: readonly NamedRuns[]): void {
    const now = performance.now()
    for (const runs of all) {
      const counters = this.#of(runs.name)
      const { started, done, retried, buried, other } = runs
      counters.slots = counters.name === OTHERS ? null : runs.slots
      counters.started += started
      counters.done += done
      counters.retried += retried
      counters.buried += buried
      counters.other += other
      counters.ranMs += runs.ranMs
      if (done > 0) counters.doneRate.add(done, now)
      if (retried + buried > 0) counters.failedRate.add(retried + buried, now)
      const running = (counters.running.get(pid) ?? 0) + started - done - retried - buried - other
      if (running > 0) counters.running.set(pid, running)
      else counters.running.delete(pid)
    }
  }

  /** Takes in that a process began: what ran in an earlier one with its pid has ended. */
  began(pid: number): void {
    const now = performance.now()
    for (const counters of this.#byName.values()) kill(counters, pid, now)
  }

  /** Returns the names with most runs first. @param pids the workers that are alive: runs of any other have ended with it */
  stats(pids: ReadonlySet<number>): NamedStats[] {
    const now = performance.now()
    for (const counters of this.#byName.values()) settle(counters, pids, now)
    return [...this.#byName.values()]
      .sort((a, b) => b.started - a.started)
      .map(({ doneRate, failedRate, running, ...counts }) => ({
        ...counts,
        running: sum(running.values()),
        rates: { done: doneRate.rate(now), failed: failedRate.rate(now) },
      }))
  }

  #of(name: string): Counters {
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    if (this.#byName.size >= MOST_NAMES && name !== OTHERS) return this.#of(OTHERS)
    const now = performance.now()
    const counters: Counters = {
      ...{ name, slots: null, started: 0, done: 0, retried: 0, buried: 0, other: 0, killed: 0, ranMs: 0 },
      doneRate: new RateCounter(now),
      failedRate: new RateCounter(now),
      running: new Map(),
    }
    this.#byName.set(name, counters)
    return counters
  }
}

function settle(counters: Counters, pids: ReadonlySet<number>, now: number): void {
  for (const pid of counters.running.keys()) if (!pids.has(pid)) kill(counters, pid, now)
}

function kill(counters: Counters, pid: number, now: number): void {
  const count = counters.running.get(pid)
  if (count === undefined) return
  counters.running.delete(pid)
  counters.killed += count
  counters.failedRate.add(count, now)
}

function sum(counts: Iterable<number>): number {
  let total = 0
  for (const count of counts) total += count
  return total
}
