import type { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { readlinkSync } from 'node:fs'
import { systemCalls } from './libc.js'
import { childrenOf, STARTED, statOf } from './process-usage.js'

/**
 * How long a zombie is left alone. Node itself takes the exit of a child of its own in the turn of the event loop in which
 * it hears of it.
 */
const PATIENCE_MS = 5_000

/**
 * Reaps strange children if this is the first process of a pid namespace, such as a container's: processes whose parent has
 * ended become its children.
 */
export function reapIfFirst(): void {
  if (process.pid !== 1) return
  const reaper = new Reaper(PATIENCE_MS)
  setInterval(() => reaper.look(performance.now()), PATIENCE_MS).unref()
}

/**
 * Waits for children that nobody in this process knows, one pid at a time; otherwise they would stay zombies. Node never
 * reports an exit that somebody else has taken, so Node's own children are left alone. A child that has not been a zombie
 * for `patienceMs` is left alone, too, because somebody may be about to wait for it: `spawnSync`, or a library.
 */
export class Reaper {
  /** Node's own children, with those that have ended since the last look. */
  readonly #own = new Set<ChildProcess>()
  /** Since when each zombie has been seen, by its pid and start time. */
  #zombies = new Map<string, number>()
  readonly #patienceMs: number

  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs
    // a child is announced as it is made, so it has no pid yet
    subscribe('child_process', message => {
      this.#own.add((message as { readonly process: ChildProcess }).process)
    })
  }

  look(now: number): void {
    const own = this.#running()
    const zombies = new Map<string, number>()
    for (const pid of childrenOfThisProcess()) {
      if (own.has(pid)) continue
      const { 0: state, [STARTED]: started } = statOf(pid)
      if (state !== 'Z') continue
      const key = `${pid} ${started}`
      const since = this.#zombies.get(key) ?? now
      if (now - since < this.#patienceMs || !reap(pid)) zombies.set(key, since)
    }
    this.#zombies = zombies
  }

  #running(): Set<number> {
    const pids = new Set<number>()
    for (const child of this.#own)
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null)
        this.#own.delete(child)
      else pids.add(child.pid)
    return pids
  }
}

/**
 * Returns the children of this process; none where /proc is missing, or is that of another namespace, whose numbers are not
 * ours.
 */
function childrenOfThisProcess(): number[] {
  try {
    return readlinkSync('/proc/self') === String(process.pid) ? childrenOf(process.pid) : []
  } catch {
    return []
  }
}

/** Reaps a zombie. @returns false if that cannot be done */
function reap(pid: number): boolean {
  try {
    return systemCalls().waitpid(pid) !== undefined
  } catch {
    return false
  }
}
