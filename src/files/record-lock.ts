import { onDemand } from '../base/on-demand.js'

/** The only file that knows the library; it is not loaded before it is used. */
export const loadRecordLocks = onDemand<typeof import('fs-native-extensions')>('fs-native-extensions')

/**
 * Locks a whole file, exclusively, without waiting: an open-file-description lock. It conflicts with uWSGI's POSIX record locks
 * both ways, is held until the last copy of the descriptor is closed, and unlike those does not vanish when another
 * descriptor of the same file is.
 *
 * @returns false when another one holds it; rejects where nothing is prebuilt for the platform
 */
export async function tryHold(fd: number): Promise<boolean> {
  return loadRecordLocks().tryLock(fd)
}
