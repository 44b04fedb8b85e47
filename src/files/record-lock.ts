import { errnoOf } from '../base/errors.js'
import { onDemand } from '../base/on-demand.js'

/** Locks of open file descriptions (F_OFD_SETLK), over whole files. */
interface RecordLocks {
  /** Exclusively, without waiting; false when somebody else holds any part of the file. */
  tryLock(fd: number): boolean
  unlock(fd: number): void
}

/** What fs-native-extensions' own `index.js` calls. */
interface Binding {
  /** Throws EAGAIN when somebody else holds any part of it; a length of 0 reaches to the end of the file. */
  tryLock(fd: number, offset: number, length: number, isExclusive: boolean): void
  unlock(fd: number, offset: number, length: number): void
}

const PREBUILT = `fs-native-extensions/prebuilds/${process.platform}-${process.arch}/fs-native-extensions.node`
const loadPrebuilt = onDemand<Binding>(PREBUILT)
/** Looks for it in many places, with a dozen modules: a seventh of what a start takes. */
const searchBinding = onDemand<Binding>('fs-native-extensions/binding.js')

/** The only function that knows the library; it is not loaded before it is used. */
export function loadRecordLocks(): RecordLocks {
  const binding = loadBinding()
  return {
    tryLock(fd) {
      try {
        binding.tryLock(fd, 0, 0, true)
        return true
      } catch (error) {
        if (errnoOf(error) === 'EAGAIN') return false
        throw error
      }
    },
    unlock: fd => binding.unlock(fd, 0, 0),
  }
}

function loadBinding(): Binding {
  try {
    return loadPrebuilt()
  } catch {
    return searchBinding()
  }
}

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
