import { availableParallelism, loadavg } from 'node:os'
import { setTimeout } from 'node:timers/promises'

/** Functions that describe what happened, for the message of a timeout. */
export const witnesses = new Set<() => string>()

/** A file has twenty minutes. */
const MOST_PATIENT = 5

/** What a deadline is multiplied by, a whole number: how many processes share a processor of this machine at present. */
export function patience(): number {
  const [lastMinute = 0] = loadavg()
  return Math.min(MOST_PATIENT, Math.max(1, Math.ceil(lastMinute / availableParallelism())))
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
    await setTimeout(5)
  }
}
