import {
  closeSync,
  constants,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  utimesSync,
  writeSync,
} from 'node:fs'
import { errnoOf, SpooldError } from '../base/errors.js'
import { baseName, displayName, type Ref, toFsPath } from '../task/ref.js'
import { createTaskName } from './file-name.js'

const { O_WRONLY, O_CREAT, O_EXCL } = constants
const NEW_FILE = O_WRONLY | O_CREAT | O_EXCL
const HIDDEN = /^\.spoold-(.*)\.tmp$/s

/** The name under which a task is written, and which nobody runs. */
export function hiddenRef(ref: Ref): Ref {
  const name = baseName(ref)
  return `${ref.slice(0, ref.length - name.length)}.spoold-${name}.tmp`
}

/** The reverse: the task's name; undefined for a file that is none of our drafts. */
export function draftedName(hidden: string): string | undefined {
  return HIDDEN.exec(hidden)?.[1]
}

/**
 * A task on its way into a spool: a hidden file that becomes the task by one rename, so that nobody ever sees half of it.
 *
 * States: open → closed → published | discarded. A process that dies leaves the hidden file, which `sweep` removes.
 */
export class Draft {
  readonly spool: string
  readonly ref: Ref
  /** The directory that the task lies in: the spool, or a priority. */
  readonly directory: string
  /** The priority directory is new. */
  readonly isDirectoryNew: boolean
  readonly fd: number
  #bytes = 0
  #isOpen = true

  /** @throws SpooldError REQUEST_INVALID, or the file system's error; then nothing is left behind */
  constructor(spool: string, priority: string | undefined) {
    const name = createTaskName()
    this.spool = spool
    this.ref = priority === undefined ? name : `${priority}/${name}`
    this.directory = priority === undefined ? spool : `${spool}/${priority}`
    if (priority !== undefined) checkPriority(spool, priority)
    const opened = openIn(this.directory, `${spool}/${hiddenRef(this.ref)}`, priority !== undefined)
    this.fd = opened.fd
    this.isDirectoryNew = opened.isDirectoryNew
  }

  get path(): string {
    return `${this.spool}/${this.ref}`
  }

  get hiddenPath(): string {
    return `${this.spool}/${hiddenRef(this.ref)}`
  }

  append(bytes: Uint8Array): void {
    writeAll(this.fd, bytes, this.#bytes)
    this.#bytes += bytes.length
  }

  setTime(seconds: number): void {
    futimesSync(this.fd, seconds, seconds)
  }

  /** A time of change that is now, so that the sweep leaves it alone. */
  renew(atSeconds = Date.now() / 1000): void {
    utimesSync(toFsPath(this.hiddenPath), atSeconds, atSeconds)
  }

  close(): void {
    if (this.#isOpen) closeSync(this.fd)
    this.#isOpen = false
  }

  publish(): void {
    renameSync(toFsPath(this.hiddenPath), toFsPath(this.path))
  }

  /** Also takes a published task back; whoever runs it already ends his run. */
  discard(isPublished: boolean): void {
    this.close()
    try {
      rmSync(toFsPath(isPublished ? this.path : this.hiddenPath), { force: true })
    } catch {} // a disk that has just failed; the sweep comes by
  }
}

/** The path of a new task at the top of a spool, a byte string. */
export function newTaskPath(spool: string): string {
  return `${spool}/${createTaskName()}`
}

/** Straight under its final name, in one write: a reader sees nothing or all of it, as long as it fits a page. */
export function writeInPlace(path: string, bytes: Uint8Array): void {
  const fsPath = toFsPath(path)
  const fd = openSync(fsPath, NEW_FILE, 0o600)
  try {
    writeAll(fd, bytes, 0)
  } catch (error) {
    rmSync(fsPath, { force: true })
    throw error
  } finally {
    closeSync(fd)
  }
}

/** `write` may take less than it was given, on a disk that is nearly full. */
function writeAll(fd: number, bytes: Uint8Array, position: number): void {
  let done = 0
  while (done < bytes.length) done += writeSync(fd, bytes, done, bytes.length - done, position + done)
}

/** Digits are one path segment, whoever chose them; and what has that name must not lead elsewhere. */
function checkPriority(spool: string, priority: string): void {
  if (!/^[0-9]{1,255}$/.test(priority))
    throw new SpooldError(
      'REQUEST_INVALID',
      `priority must be digits only, got ${JSON.stringify(priority)}`,
      {
        details: { key: 'priority', got: priority },
      },
    )
  const directory = `${spool}/${priority}`
  if (lstatSync(toFsPath(directory), { throwIfNoEntry: false })?.isDirectory() !== false) return
  throw new SpooldError('ENQUEUE_FAILED', `${displayName(directory)} is no directory; remove it`, {
    details: { path: displayName(directory) },
  })
}

/** Makes a missing priority directory as uWSGI does: 0777 less the umask. */
function openIn(directory: string, path: string, mayMake: boolean): { fd: number; isDirectoryNew: boolean } {
  for (let isDirectoryNew = false; ; isDirectoryNew = true)
    try {
      return { fd: openSync(toFsPath(path), NEW_FILE, 0o600), isDirectoryNew }
    } catch (error) {
      if (!mayMake || isDirectoryNew || errnoOf(error) !== 'ENOENT') throw error
      try {
        mkdirSync(toFsPath(directory))
      } catch (reason) {
        if (errnoOf(reason) !== 'EEXIST') throw reason // somebody else was quicker
      }
    }
}
