import { closeSync, fstatSync, ftruncateSync, readSync, statSync, writeSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { PidfileKind } from '../../base/events/event-map.js'
import { inodeAt, type Opener } from '../../system/opener.js'
import { uwsgiNamedIn } from './live-uwsgi.js'

/** Opens, locks and removes pidfiles. */
type PidfileFiles = Pick<Opener, 'make' | 'lock' | 'remove'>

/** The pidfiles of this process: at most one of each kind. */
export class Pidfiles {
  readonly #events: Emitter
  readonly #files: PidfileFiles
  readonly #held = new Map<PidfileKind, Pidfile>()

  constructor(events: Emitter, files: PidfileFiles) {
    this.#events = events
    this.#files = files
  }

  /** @throws SpooldError PIDFILE_HELD, START_FAILED */
  async acquire(kind: PidfileKind, file: string): Promise<void> {
    const other = uwsgiNamedIn(file) // one ini may serve both programs
    if (other !== undefined) {
      const message = `${file} names a uWSGI that runs (pid ${other}), and is left alone; give spoold another ${kind}`
      return this.#events.emit('config-warning', { message })
    }
    const isOurs = [...this.#held.values()].some(each => each.isAt(file))
    if (!isOurs) this.#held.set(kind, await acquirePidfile(file, this.#files))
    this.#events.emit('pidfile-written', { file })
  }

  /** @param remove true: after a failed start, or with `vacuum` */
  release(remove: boolean): void {
    for (const [kind, pidfile] of this.#held) {
      const error = pidfile.release(remove)
      if (error !== undefined) this.#events.emit('pidfile-left', { file: pidfile.path, error })
      else if (remove) this.#events.emit('pidfile-removed', { kind })
    }
    this.#held.clear()
  }
}

/** A pidfile that this process holds. */
interface Pidfile {
  readonly path: string
  isAt(file: string): boolean
  /**
   * Releases the pidfile.
   *
   * @param remove true: remove the file, as uWSGI's vacuum does
   * @returns why it could not be removed, for example because the process has dropped the privileges that it created
   *   it with
   */
  release(remove: boolean): string | undefined
}

/**
 * Writes the pid and a newline, as uWSGI does. The file stays locked while the process lives: a second master is
 * refused whatever its pid, and a file that a dead process left is simply taken over.
 *
 * @throws SpooldError PIDFILE_HELD, START_FAILED
 */
export async function acquirePidfile(file: string, files: PidfileFiles): Promise<Pidfile> {
  const path = resolve(file) // the process may change its directory before it removes the file
  for (;;) {
    const fd = await attempt(path, 'opened', () => files.make(path, 0o644))
    try {
      if (!(await attempt(path, 'locked', () => files.lock(fd)))) throw heldByOther(path, fd)
      const isOurs = isAt(path, fd) // false: its last holder removed it between our open and our lock
      if (isOurs) {
        await attempt(path, 'written', () => writePid(path, fd))
        return {
          path,
          isAt: other => isAt(resolve(other), fd),
          release: remove => release(path, fd, remove ? files : undefined),
        }
      }
    } catch (error) {
      closeSync(fd)
      throw error
    }
    closeSync(fd)
  }
}

/** @throws SpooldError START_FAILED, for instance where record locks are not available */
async function attempt<T>(path: string, verb: string, act: () => T | Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    const why = errnoOf(error) === 'ELOOP' ? 'it is a symbolic link' : messageOf(error)
    throw new SpooldError(
      'START_FAILED',
      `the pidfile ${path} cannot be ${verb} (${why}); name another one, or fix its directory`,
      { cause: error },
    )
  }
}

function heldByOther(path: string, fd: number): SpooldError {
  const pid = pidIn(fd)
  const other = pid === '' ? '' : ` (pid ${pid})`
  return new SpooldError(
    'PIDFILE_HELD',
    `another spoold${other} holds ${path}; stop it, or name another pidfile`,
  )
}

/** Longer than any pidfile. */
const MAX_BYTES = 64

/**
 * Where other users can create names, this name may be a hard link to another file. So only a file that holds a pid is
 * overwritten.
 */
function checkContent(path: string, fd: number): void {
  const [stats, directory] = [fstatSync(fd), statSync(dirname(path))]
  if (stats.isFile() && directory.uid === process.geteuid?.() && (directory.mode & 0o022) === 0) return
  const text = stats.isFile() ? startOf(fd) : ''
  if (!stats.isFile() || stats.size >= MAX_BYTES || !/^\s*\d*\s*$/.test(text))
    throw new Error('there is another file of this name, which holds no pid')
}

function writePid(path: string, fd: number): void {
  checkContent(path, fd)
  ftruncateSync(fd)
  writeSync(fd, `${process.pid}\n`, 0)
}

/** @param files removes the file; undefined: the file stays */
function release(path: string, fd: number, files: PidfileFiles | undefined): string | undefined {
  try {
    if (files !== undefined && namesUs(fd)) files.remove(path, inodeAt(fd) ?? '') // unless another file has replaced ours
    return undefined
  } catch (error) {
    return messageOf(error)
  } finally {
    closeSync(fd)
  }
}

/** False if a uWSGI with the same pidfile has written its pid into the file, which it does in spite of our lock. */
function namesUs(fd: number): boolean {
  return startOf(fd).trim() === String(process.pid)
}

/** True if no other file has replaced the open one. */
function isAt(path: string, fd: number): boolean {
  return inodeAt(path) === inodeAt(fd)
}

/** The holder's pid, read from the open file, because the name may lead to any file by now; '' if the holder has not written it yet. */
function pidIn(fd: number): string {
  return /^\s*(\d{1,20})\s*$/.exec(startOf(fd))?.[1] ?? ''
}

function startOf(fd: number): string {
  const content = Buffer.alloc(MAX_BYTES)
  return content.toString('latin1', 0, readSync(fd, content, 0, MAX_BYTES, 0))
}
