import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'

/** A pidfile that this process holds. */
export interface Pidfile {
  readonly path: string
  isAt(file: string): boolean
  /**
   * Releases the pidfile.
   *
   * @param remove as uWSGI's vacuum
   * @returns why it could not be removed, for example because the process has dropped the privileges that it created
   *   it with
   */
  release(remove: boolean): string | undefined
}

/**
 * Writes the pid and a newline, as uWSGI does. The file stays locked while the process lives: a second master is
 * refused whatever its pid, and a file that a dead process left is simply taken over.
 *
 * @param tryHold locks a descriptor for the life of the process; false when another process holds it
 * @throws SpooldError PIDFILE_HELD, START_FAILED
 */
export async function acquirePidfile(
  file: string,
  tryHold: (fd: number) => Promise<boolean>,
): Promise<Pidfile> {
  const path = resolve(file) // the process may change its directory before it removes the file
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

/** @throws SpooldError START_FAILED where record locks are not available */
async function hold(path: string, fd: number, tryHold: (fd: number) => Promise<boolean>): Promise<boolean> {
  try {
    return await tryHold(fd)
  } catch (error) {
    closeSync(fd)
    throw failure(path, 'locked', error)
  }
}

// the file is opened as root, often in a directory that another user can write: a link there may lead to any file
const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
/** Longer than any pidfile. */
const MAX_BYTES = 64

function open(path: string): number {
  try {
    return openSync(path, FLAGS, 0o644)
  } catch (error) {
    const why = errnoOf(error) === 'ELOOP' ? new Error('it is a symbolic link') : error
    throw failure(path, 'opened', why)
  }
}

/**
 * Where other users can create names, this one may be a hard link to another file. So only a file that holds a pid is
 * overwritten.
 */
function checkContent(path: string, fd: number): void {
  const [stats, directory] = [fstatSync(fd), statSync(dirname(path))]
  if (stats.isFile() && directory.uid === process.geteuid?.() && (directory.mode & 0o022) === 0) return
  const content = Buffer.alloc(MAX_BYTES)
  const text = stats.isFile() ? content.toString('latin1', 0, readSync(fd, content, 0, MAX_BYTES, 0)) : ''
  if (!stats.isFile() || stats.size >= MAX_BYTES || !/^\s*\d*\s*$/.test(text))
    throw new Error('there is another file of this name, which holds no pid')
}

function writePid(path: string, fd: number): void {
  try {
    checkContent(path, fd)
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n`, 0)
  } catch (error) {
    closeSync(fd)
    throw failure(path, 'written', error)
  }
}

function release(path: string, fd: number, remove: boolean): string | undefined {
  try {
    if (remove && isAt(path, fd) && namesUs(fd)) rmSync(path)
    return undefined
  } catch (error) {
    return messageOf(error)
  } finally {
    closeSync(fd)
  }
}

/** A uWSGI that has the same pidfile writes its pid into the same file, whatever we have locked. */
function namesUs(fd: number): boolean {
  const content = Buffer.alloc(MAX_BYTES)
  return content.toString('latin1', 0, readSync(fd, content, 0, MAX_BYTES, 0)).trim() === String(process.pid)
}

/** No other file has replaced it. */
function isAt(path: string, fd: number): boolean {
  const here = fstatSync(fd, { bigint: true })
  const there = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  return there?.ino === here.ino && there.dev === here.dev
}

/** Empty if the holder has just removed the file, or has not written it yet. */
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
    `the pidfile ${path} cannot be ${verb} (${messageOf(error)}); name another one, or fix its directory`,
    { cause: error },
  )
}
