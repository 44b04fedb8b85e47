import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { messageOf, SpooldError } from '../base/errors.js'

/** A pidfile that this process holds. */
export interface Pidfile {
  /** Gives it up; `remove` is uWSGI's vacuum. */
  release(remove: boolean): void
}

/**
 * Writes the pid and a newline, as uWSGI. The file stays locked while the process lives, so a second master is refused
 * whatever its pid, and a file that a dead one left behind is simply taken over.
 *
 * @param tryHold locks a descriptor for the life of the process, false when another holds it
 * @throws SpooldError PIDFILE_HELD, START_FAILED
 */
export async function acquirePidfile(
  path: string,
  tryHold: (fd: number) => Promise<boolean>,
): Promise<Pidfile> {
  for (;;) {
    const fd = open(path)
    if (!(await tryHold(fd))) {
      const pid = readFileSync(path, 'utf8').trim()
      closeSync(fd)
      throw new SpooldError(
        'PIDFILE_HELD',
        `another spoold (pid ${pid}) holds ${path}; stop it, or name another pidfile`,
      )
    }
    if (statSync(path, { throwIfNoEntry: false })?.ino !== fstatSync(fd).ino) {
      closeSync(fd) // its last holder removed it between our open and our lock
      continue
    }
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n`)
    return {
      release(remove) {
        if (remove) rmSync(path, { force: true })
        closeSync(fd)
      },
    }
  }
}

function open(path: string): number {
  try {
    return openSync(path, 'a+', 0o644)
  } catch (error) {
    throw new SpooldError('START_FAILED', `the pidfile ${path} cannot be opened: ${messageOf(error)}`, {
      cause: error,
    })
  }
}
