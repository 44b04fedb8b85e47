import { setTimeout } from 'node:timers/promises'

/** Who can say what happened when somebody waits in vain. */
export const witnesses = new Set<() => string>()

/**
 * Waits until `probe` gives something other than undefined, false or null, and returns it. Conditions, never sleeps: the
 * deadline only says when to give up.
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
