import { setTimeout } from 'node:timers/promises'

/** Functions that describe what happened, for the message of a timeout. */
export const witnesses = new Set<() => string>()

/**
 * Waits until `probe` returns something other than undefined, false or null, and returns it. Tests wait for conditions,
 * never for a fixed time; the deadline only says when to give up.
 */
export async function until<T>(
  what: string,
  probe: () => T | Promise<T>,
  timeoutMs = 60_000,
): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const value = await probe()
    if (value !== undefined && value !== null && value !== false) return value as NonNullable<T>
    if (performance.now() > deadline)
      throw new Error(
        [`waited ${timeoutMs} ms in vain until ${what}`, ...[...witnesses].map(say => say())].join('\n'),
      )
    await setTimeout(5)
  }
}
