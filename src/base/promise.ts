/**
 * True for anything that can be awaited. The class is no test: the code of users may replace the global Promise, as with
 * Bluebird, and an async function still returns one of Node's own.
 */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
