/**
 * Node's time, whatever handlers make of the globals. The fake clock of a test, left on, would have a worker take all tasks for
 * tasks of later, and wait for ever. What a worker does between its handlers takes these.
 */
export const { clearTimeout, setImmediate, setTimeout } = globalThis

/** FAT keeps times in even seconds, and ext4 with small inodes in whole ones: of two times of files, a later one may seem to be earlier. */
export const COARSEST_TIME_MS = 2000

/** Milliseconds since the epoch. */
export const epochNowMs = Date.now
