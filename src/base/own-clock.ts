/**
 * Node's time, whatever handlers make of the globals. The fake clock of a test, left on, would have a worker take all tasks for
 * tasks of later, and wait for ever. What a worker does between its handlers takes these.
 */
export const { clearTimeout, setImmediate, setTimeout } = globalThis

/** Milliseconds since the epoch. */
export const epochNowMs = Date.now
