/**
 * Node's own timers, whatever handlers do to the globals. What a worker does between its handlers uses these: with the fake
 * clock of a test that was left on, it would take all tasks for tasks of later, and wait for ever.
 */
export const { clearTimeout, setImmediate, setTimeout } = globalThis

/**
 * How coarse the times of files may be: FAT keeps them in even seconds, and ext4 with small inodes in whole ones. So the
 * later one of two file times may seem to be the earlier.
 */
export const COARSEST_TIME_MS = 2000

/** Milliseconds since the epoch. */
export const epochNowMs = Date.now
