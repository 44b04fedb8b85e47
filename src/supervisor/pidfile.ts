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
import { resolve } from 'node:path'
import { messageOf, SpooldError } from '../base/errors.js'

/** A pidfile that this process holds. */
export interface Pidfile {
  readonly path: string
  isAt(file: string): boolean
  /**
   * Gives it up.
   *
   * @param remove uWSGI's vacuum
   * @returns why it could not be removed: a process that gave its rights away may not do what root did
   */
  release(remove: boolean): string | undefined
}

/**
 * Writes the pid and a newline, as uWSGI. The file stays locked while the process lives, so a second master is refused
 * whatever its pid, and a file that a dead one left behind is simply taken over.
 *
 * @param tryHold locks a descriptor for the life of the process, false when another holds it
 * @throws SpooldError PIDFILE_HELD, START_FAILED
 */
export async function acquirePidfile(
  file: string,
  tryHold: (fd: number) => Promise<boolean>,
): Promise<Pidfile> {
  const path = resolve(file) // the process may enter another directory before it removes it
  for (;;) {
    const fd = open(path)
    if (!(await hold(path, fd, tryHold))) {
      closeSync(fd)
      throw new SpooldError(
        'PIDFILE_HELD',
        `another spoold${pidIn(path)} holds ${path}; stop it, or name another pidfile`,
      )
    }
    if (!isAt(path, fd)) {
      closeSync(fd) // its last holder removed it between our open and our lock
      continue
    }
    writePid(path, fd)
    return {
      path,
      isAt: other => isAt(resolve(other), fd),
      release: remove => release(path, fd, remove),
    }
  }
}

/** Record locks may be missing on this machine. */
async function hold(path: string, fd: number, tryHold: (fd: number) => Promise<boolean>): Promise<boolean> {
  try {
    return await tryHold(fd)
  } catch (error) {
    closeSync(fd)
    throw failure(path, 'locked', error)
  }
}

function open(path: string): number {
  try {
    return openSync(path, 'a+', 0o644)
  } catch (error) {
    throw failure(path, 'opened', error)
  }
}

function writePid(path: string, fd: number): void {
  try {
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n`)
  } catch (error) {
    closeSync(fd)
    throw failure(path, 'written', error)
  }
}

function release(path: string, fd: number, remove: boolean): string | undefined {
  try {
    if (remove && isAt(path, fd)) rmSync(path) // what was put in its place is not ours
    return undefined
  } catch (error) {
    return messageOf(error)
  } finally {
    closeSync(fd)
  }
}

function isAt(path: string, fd: number): boolean {
  const [there, here] = [statSync(path, { throwIfNoEntry: false }), fstatSync(fd)]
  return there?.ino === here.ino && there.dev === here.dev
}

/** Its holder may be about to remove it, or not have written it yet. */
function pidIn(path: string): string {
  try {
    const pid = readFileSync(path, 'utf8').trim()
    return pid === '' ? '' : ` (pid ${pid})`
  } catch {
    return ''
  }
}

function failure(path: string, verb: string, error: unknown): SpooldError {
  return new SpooldError(
    'START_FAILED',
    `the pidfile ${path} cannot be ${verb} (${messageOf(error)}); name another one, or mend its directory`,
    { cause: error },
  )
}
