import { errnoOf } from '../../base/errors.js'
import { onDemand } from '../../base/on-demand.js'

/** Locks of open file descriptions (F_OFD_SETLK) on whole files. */
interface RecordLocks {
  /** Takes an exclusive lock without blocking; false if another holder has locked any part of the file. */
  tryLock(fd: number): boolean
  /** The same for a shared lock, which only an exclusive one keeps away. */
  tryShare(fd: number): boolean
  unlock(fd: number): void
}

/** The binding that fs-native-extensions' own `index.js` calls. */
interface Binding {
  /** Throws EAGAIN if another holder has locked any part of the range; length 0 extends to the end of the file. */
  tryLock(fd: number, offset: number, length: number, isExclusive: boolean): void
  unlock(fd: number, offset: number, length: number): void
}

const PREBUILT = `fs-native-extensions/prebuilds/${process.platform}-${process.arch}/fs-native-extensions.node`
const loadPrebuilt = onDemand<Binding>(PREBUILT)
/** The slow way: it loads a dozen modules and searches many places, which takes a seventh of the start-up time. */
const searchBinding = onDemand<Binding>('fs-native-extensions/binding.js')

/** The only function that uses the library; it is loaded on first use. */
export function loadRecordLocks(): RecordLocks {
  const binding = loadBinding()
  return {
    tryLock: fd => tryLock(binding, fd, true),
    tryShare: fd => tryLock(binding, fd, false),
    unlock: fd => binding.unlock(fd, 0, 0),
  }
}

/** The library says by an exception that somebody else has the lock; a stack would cost ten times what the call does. */
function tryLock(binding: Binding, fd: number, isExclusive: boolean): boolean {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    binding.tryLock(fd, 0, 0, isExclusive)
    return true
  } catch (error) {
    if (errnoOf(error) === 'EAGAIN') return false
    throw error
  } finally {
    Error.stackTraceLimit = stackTraceLimit
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
 * Takes an exclusive open-file-description lock on a whole file, without blocking. It conflicts with uWSGI's POSIX record
 * locks in both directions, and is held until the last copy of the descriptor is closed. Unlike a POSIX lock, it survives
 * when the process closes another descriptor of the same file.
 *
 * @returns false if another holder has the lock; rejects if the library has no prebuilt binary for the platform
 */
export async function tryHold(fd: number): Promise<boolean> {
  return loadRecordLocks().tryLock(fd)
}
