import { closeSync, constants, fchownSync, futimesSync, writeSync } from 'node:fs'
import { errnoOf, SpooldError } from '../../../base/errors.js'
import { crypto } from '../../../base/on-demand.js'
import { baseName, type Ref, toByteString, toFsPath } from '../../../base/task/ref.js'
import type { Request } from '../../../base/task/request.js'
import {
  lstatSync,
  nameOf,
  openSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
} from '../../../system/files/anchored-path.js'
import { createTaskName, UWSGI_PREFIX } from '../names.js'
import type { Owner } from '../permissions.js'
import { type FileDirectory, holdDirectoryOf, inDirectoryOf } from '../priority-directory.js'
import { makeStateRoom, stateRoom } from '../state-directory.js'

const { O_WRONLY, O_CREAT, O_EXCL } = constants
const NEW_FILE = O_WRONLY | O_CREAT | O_EXCL
const HIDDEN = /^\.spoold-(.*)\.tmp$/s

/** Returns the hidden name under which a task is written. A file of such a name is never run. */
export function hiddenRef(ref: Ref): Ref {
  const name = baseName(ref)
  return `${ref.slice(0, ref.length - name.length)}.spoold-${name}.tmp`
}

/** Returns the task's name for a hidden name; undefined for a file that is none of our drafts. */
export function draftedName(hidden: string): string | undefined {
  return HIDDEN.exec(hidden)?.[1]
}

/**
 * A task on its way into a spool: a hidden file that becomes the task by one rename, so that no reader ever sees half of it.
 *
 * States: open → closed → published | promised → ended. A draft that ends before it is published or promised is removed. A
 * process that dies leaves the hidden file, which `sweep` removes.
 */
export class Draft {
  readonly spool: string
  readonly ref: Ref
  /** The directory that the task lies in, the spool or a priority, as it was found or made, whatever its name leads to now. */
  readonly #at: FileDirectory
  /** True if this draft has made the priority directory. */
  readonly isDirectoryNew: boolean
  readonly fd: number
  #bytes = 0
  #isOpen = true
  /** True once the draft is published or promised: from then on others may rely on its file. */
  #isStored = false

  /**
   * @param owner the user to whom root gives the file
   * @throws SpooldError REQUEST_INVALID, or the file system's error; then nothing is left behind
   */
  constructor(spool: string, request: Pick<Request, 'priority' | 'mark' | 'name'>, owner?: Owner) {
    const { priority } = request
    const name = taskNameOf(request)
    this.spool = spool
    this.ref = priority === undefined ? name : `${priority}/${name}`
    this.#at = holdPriority(spool, priority, this.ref, owner)
    this.isDirectoryNew = this.#at.isNew
    try {
      this.fd = createFor(this.#hiddenPath, owner)
    } catch (error) {
      this.#at.release()
      throw error
    }
  }

  get path(): string {
    return `${this.spool}/${this.ref}`
  }

  /** The path of the task's directory, valid until `end`, whatever the directory's name leads to now. */
  get heldDirectory(): string {
    return this.#at.path
  }

  get #fsPath(): string | Buffer {
    return toFsPath(`${this.#at.path}/${baseName(this.ref)}`)
  }

  get #hiddenPath(): string | Buffer {
    return toFsPath(`${this.#at.path}/${hiddenRef(baseName(this.ref))}`)
  }

  append(bytes: Uint8Array): void {
    writeAll(this.fd, bytes, this.#bytes)
    this.#bytes += bytes.length
  }

  /** Sets the file's times to whole seconds, as uWSGI does: the packet has the fraction. */
  setTime(atSeconds: number): void {
    const seconds = Math.floor(atSeconds)
    futimesSync(this.fd, seconds, seconds)
  }

  /**
   * Sets the ctime of the hidden file to now, by which a sweep sees that its writer is alive. The mtime stays.
   *
   * @throws ENOENT if a sweep came first
   */
  renew(): void {
    const { mtimeMs } = lstatSync(this.#hiddenPath) ?? { mtimeMs: 0 }
    utimesSync(this.#hiddenPath, mtimeMs / 1000, mtimeMs / 1000)
  }

  close(): void {
    if (this.#isOpen) closeSync(this.fd)
    this.#isOpen = false
  }

  publish(): void {
    renameSync(this.#hiddenPath, this.#fsPath)
    this.#isStored = true
  }

  /** Removes the published task again. A run that has begun goes on to its end. */
  takeBack(): void {
    unlinkQuietly(this.#fsPath)
  }

  /**
   * Takes an id for the task, which promises that the task will be published.
   *
   * @returns the task that has the id now: this one, or another that was quicker
   */
  promise(id: string): Ref {
    const ref = takeId(this.spool, id, this.ref)
    this.#isStored = ref === this.ref
    return ref
  }

  /** Ends the draft, and removes its hidden file if the task is neither published nor promised. To be called in any case. */
  end(): void {
    this.close()
    if (!this.#isStored) unlinkQuietly(this.#hiddenPath)
    this.#at.release()
  }
}

/** The path of a new task at the top of a spool, a byte string. */
export function newTaskPath(spool: string, request: Pick<Request, 'mark' | 'name'>): string {
  return `${spool}/${taskNameOf(request)}`
}

function taskNameOf({ mark, name }: Pick<Request, 'mark' | 'name'>): string {
  return name === undefined ? createTaskName(undefined, mark) : toByteString(name)
}

/**
 * Writes a task straight under its final name, in one write: a reader sees nothing or all of it, as long as it fits into a
 * page.
 */
export function writeInPlace(path: string, bytes: Uint8Array, owner?: Owner): void {
  const fsPath = toFsPath(path)
  const fd = createFor(fsPath, owner)
  try {
    writeAll(fd, bytes, 0)
  } catch (error) {
    unlinkQuietly(fsPath)
    throw error
  } finally {
    closeSync(fd)
  }
}

/** Creates an empty file and gives it to its owner. No reader takes an empty file for a task. */
function createFor(path: string | Buffer, owner: Owner | undefined): number {
  const fd = openSync(path, NEW_FILE, 0o600)
  if (owner === undefined) return fd
  try {
    fchownSync(fd, owner.uid, owner.gid)
    return fd
  } catch (error) {
    closeSync(fd)
    unlinkQuietly(path)
    throw error
  }
}

/** Writes all bytes: on a disk that is nearly full, one `write` may take fewer than it was given. */
function writeAll(fd: number, bytes: Uint8Array, position: number): void {
  let done = 0
  while (done < bytes.length) done += writeSync(fd, bytes, done, bytes.length - done, position + done)
}

function unlinkQuietly(fsPath: string | Buffer): void {
  try {
    unlinkSync(fsPath)
  } catch {} // the file has gone, or the disk has just failed; the sweep removes the file then
}

/**
 * Holds the directory of a task. A priority has to be digits, which are one path segment whoever chose them, and its
 * directory must not be a link that leads elsewhere.
 */
function holdPriority(
  spool: string,
  priority: string | undefined,
  ref: Ref,
  owner: Owner | undefined,
): FileDirectory {
  if (priority !== undefined && !/^[0-9]{1,255}$/.test(priority))
    throw new SpooldError(
      'REQUEST_INVALID',
      `priority must be digits only, got ${JSON.stringify(priority)}`,
      {
        details: { key: 'priority', got: priority },
      },
    )
  try {
    return holdDirectoryOf(spool, ref, { mayMake: true, owner })
  } catch (error) {
    if (errnoOf(error) !== 'ENOTDIR') throw error
    const path = nameOf(`${spool}/${priority}`)
    throw new SpooldError('ENQUEUE_FAILED', `${path} is not a directory; remove it`, { details: { path } })
  }
}

/**
 * Ids that callers gave: `.spoold/ids/<sha-256 of the id>`, a symbolic link whose text is the task's ref. A link is made in
 * one step, whole, and only where there is none: so of all who bring the same id one wins, without a lock.
 *
 * Where there is a link, the hidden file tells the state. If it is there, the task was promised and is whole, but its writer
 * has not renamed it (yet, or ever), and whoever finds that renames it. If it is not there, the task is, or was, in the
 * spool.
 */
/** The text that a link may have: a name of ours, with at most one priority above it. */
const REF = new RegExp(`^(?:[0-9]{1,255}/)?${UWSGI_PREFIX}[^/]+$`)

export function idsDirectory(spool: string): string {
  return stateRoom(spool, 'ids')
}

/** Returns the path of an id's link. */
export function idLink(spool: string, id: string): string {
  return `${idsDirectory(spool)}/${crypto().createHash('sha256').update(id).digest('hex')}`
}

/** @returns the task that has this id; undefined when none has */
export function findId(spool: string, id: string): Ref | undefined {
  return readId(idLink(spool, id))
}

/** @returns the task that has the id now: `ref`, or another one that was quicker */
function takeId(spool: string, id: string, ref: Ref): Ref {
  makeStateRoom(spool, 'ids', '')
  const link = idLink(spool, id)
  for (;;)
    try {
      symlinkSync(toFsPath(ref), link)
      return ref
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error
      const other = readId(link)
      if (other !== undefined) return other // else a sweep has removed the link this very moment
    }
}

/** Publishes a promised task, unless that was done before. @returns true if it was done now */
export function publishPromised(spool: string, ref: Ref): boolean {
  try {
    inDirectoryOf(spool, ref, directory =>
      renameSync(
        toFsPath(`${directory}/${hiddenRef(baseName(ref))}`),
        toFsPath(`${directory}/${baseName(ref)}`),
      ),
    )
    return true
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') throw error
    return false
  }
}

/** Returns the ref of an id; undefined if there is no such link. @param link the path of a link in `.spoold/ids` */
export function readId(link: string): Ref | undefined {
  let ref: Ref
  try {
    ref = readlinkSync(toFsPath(link))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined
    if (errnoOf(error) !== 'EINVAL') throw error
    ref = '' // no link
  }
  if (REF.test(ref)) return ref
  throw new SpooldError(
    'ENQUEUE_FAILED',
    `${nameOf(link)} is no id of ours (it says ${JSON.stringify(ref)}); remove it`,
    { details: { path: nameOf(link) } },
  )
}
