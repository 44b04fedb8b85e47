import { readFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

/** Functions that describe what happened, for the message of a timeout. */
export const witnesses = new Set<() => string>()

/** The largest factor that `patience` returns. A test file is ended after 20 minutes, or 45 in a long run (run.mjs). */
const MOST_PATIENT = 5

/**
 * Returns the factor for deadlines, a whole number up to MOST_PATIENT. It is the largest of three: how many processes share a
 * processor of this machine at present; how many times as long as on a machine of its own this process takes, because a quota
 * shows in no load; and how many times their expected time the test files of this run take (run-files.mjs).
 */
export function patience(): number {
  const [lastMinute = 0] = loadavg()
  const crowd = Math.ceil(lastMinute / availableParallelism())
  const now = performance.now()
  const slowness = now / Math.max(1, now - keptWaitingMs())
  const { SPOOLD_TEST_PACE: pace = '1' } = process.env
  return Math.min(MOST_PATIENT, Math.max(1, crowd, Math.round(slowness), Math.round(Number(pace))))
}

/**
 * Returns for how many ms the main thread of a process could have run but had no processor. 0 if the process has ended, or if the
 * kernel does not count this time.
 */
export function keptWaitingMs(pid: number | 'self' = 'self'): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

const LOOK_MS = 5
/** What has not come for a second is looked for this often, because each look takes processor time from what is waited for. */
const MOST_LOOK_MS = 25

/**
 * Starts a stopwatch that leaves out the time for which `pid` could have run but had no processor, and the time by which this
 * process was late for any reason. So what is promised within a second is measured as on a machine that has time for it.
 *
 * @returns a function that stops it and returns the elapsed ms
 */
export function stopwatch(pid: number): () => number {
  const [since, before] = [performance.now(), keptWaitingMs(pid)]
  let [its, late, lookedAt] = [before, 0, since]
  const look = () => {
    const now = performance.now()
    late += Math.max(0, now - lookedAt - 2 * LOOK_MS)
    lookedAt = now
    its = Math.max(its, keptWaitingMs(pid)) // keptWaitingMs returns 0 once the process has ended
  }
  const looks = setInterval(look, LOOK_MS).unref()
  return () => {
    clearInterval(looks)
    look()
    return lookedAt - since - late - (its - before)
  }
}

/** Processes are listed at this interval and no more often, because that reads all of /proc. */
const COUNT_MS = 50

/**
 * Watches processes that do something one after the other.
 *
 * @returns a function that returns for how many ms, in total, they could have run but had no processor between two times of
 *   `Date.now()`: the result was late by as much
 */
export function waitsOf(pids: () => readonly number[]): (fromMs: number, toMs: number) => number {
  const kept = new Map<number, number>()
  const samples: Array<{ readonly atMs: number; readonly keptMs: number }> = []
  const look = () => {
    for (const pid of pids()) kept.set(pid, Math.max(kept.get(pid) ?? 0, keptWaitingMs(pid))) // 0 once it has ended
    samples.push({ atMs: Date.now(), keptMs: [...kept.values()].reduce((sum, ms) => sum + ms, 0) })
  }
  look()
  setInterval(look, COUNT_MS).unref()
  return (fromMs, toMs) => {
    look()
    const before = samples.findLast(({ atMs }) => atMs <= fromMs) ?? samples[0]
    const after = samples.find(({ atMs }) => atMs >= toMs) ?? samples.at(-1)
    return (after?.keptMs ?? 0) - (before?.keptMs ?? 0)
  }
}

/**
 * Waits until `probe` returns something other than undefined, false or null, and returns it. Tests wait for conditions,
 * never for a fixed time; the deadline only says when to give up, which is later on a busy machine.
 */
export async function until<T>(
  what: string,
  probe: () => T | Promise<T>,
  timeoutMs = 60_000,
): Promise<NonNullable<T>> {
  const since = performance.now()
  for (;;) {
    const value = await probe()
    if (value !== undefined && value !== null && value !== false) return value as NonNullable<T>
    const waitedMs = performance.now() - since
    if (waitedMs > timeoutMs && waitedMs > timeoutMs * patience())
      throw new Error(
        [`waited ${Math.round(waitedMs)} ms in vain until ${what}`, ...[...witnesses].map(say => say())].join(
          '\n',
        ),
      )
    await sleep(Math.min(MOST_LOOK_MS, LOOK_MS + waitedMs / 50))
  }
}
