import { clearTimeout, setTimeout } from './own-clock.js'

/**
 * True for anything that can be awaited. The class is no test: the code of users may replace the global Promise, as with
 * Bluebird, and an async function still returns one of Node's own.
 */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

/**
 * Resolves with what the promise resolves with, if that is in time; otherwise with what `late` returns, or rejects with what
 * `late` throws.
 */
export async function withDeadline<T>(promise: Promise<T>, ms: number, late: () => T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  return await Promise.race([promise, deadline.then(late)]).finally(() => clearTimeout(timer))
}
