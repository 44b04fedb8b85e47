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

/** The name under which a task is written, which is never run. */
export function hiddenRef(ref: Ref): Ref {
  const name = baseName(ref)
  return `${ref.slice(0, ref.length - name.length)}.spoold-${name}.tmp`
}

/** The reverse: the task's name; undefined for a file that is none of our drafts. */
export function draftedName(hidden: string): string | undefined {
  return HIDDEN.exec(hidden)?.[1]
}

/**
 * A task on its way into a spool: a hidden file that becomes the task by one rename, so that no reader ever sees half of it.
 *
 * States: open → closed → published | promised → ended. One that ends before it is either is removed; a process that dies
 * leaves the hidden file, which `sweep` removes.
 */
export class Draft {
  readonly spool: string
  readonly ref: Ref
  /** The directory that the task lies in, the spool or a priority, as it was found or made, whatever its name leads to now. */
  readonly #at: FileDirectory
  /** The priority directory is new. */
  readonly isDirectoryNew: boolean
  readonly fd: number
  #bytes = 0
  #isOpen = true
  /** Its hidden file is not only its own any more. */
  #isStored = false

  /**
   * @param owner whom root gives it to
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

  /** The path of the directory until `end`, whatever its name leads to now. */
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

  /** Whole seconds, as uWSGI's: the fraction is in the packet. */
  setTime(atSeconds: number): void {
    const seconds = Math.floor(atSeconds)
    futimesSync(this.fd, seconds, seconds)
  }

  /**
   * Gives its hidden file a time of change that is now, by which a sweep sees that its writer is alive. Its own time stays.
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

  /** The reverse; whoever runs it already ends his run. */
  takeBack(): void {
    unlinkQuietly(this.#fsPath)
  }

  /** Takes an id for it, which promises that it will be published. @returns the task that has the id now: this one, or another that was quicker */
  promise(id: string): Ref {
    const ref = takeId(this.spool, id, this.ref)
    this.#isStored = ref === this.ref
    return ref
  }

  /** To be called when there is nothing more to do with it. */
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

/** Straight under its final name, in one write: a reader sees nothing or all of it, as long as it fits a page. */
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

/** Empty, and its owner's from then on: no reader takes an empty file for a task. */
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

/** `write` may take less than it was given, on a disk that is nearly full. */
function writeAll(fd: number, bytes: Uint8Array, position: number): void {
  let done = 0
  while (done < bytes.length) done += writeSync(fd, bytes, done, bytes.length - done, position + done)
}

function unlinkQuietly(fsPath: string | Buffer): void {
  try {
    unlinkSync(fsPath)
  } catch {} // it has gone, or a disk has just failed; the sweep comes by
}

/** Digits are one path segment, whoever chose them; and what has that name must not lead elsewhere. */
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
 * Ids that callers gave: `.spoold/ids/<sha-256 of the id>`, a symbolic link whose text is the task's ref. A link is made
 * in one step, whole, and only where there is none: so of all who bring the same id one wins, without a lock.
 *
 * Its states: the link is there and so is the hidden file: the task was promised and is whole, but its writer has not
 * come to rename it (yet, or ever), and whoever finds it so does it for him. No hidden file: the task is, or was, there.
 */
/** What may stand in a link: a name of ours, at most one priority above it. */
const REF = new RegExp(`^(?:[0-9]{1,255}/)?${UWSGI_PREFIX}[^/]+$`)

export function idsDirectory(spool: string): string {
  return stateRoom(spool, 'ids')
}

/** The path of its link. */
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
      if (other !== undefined) return other // else it was swept this very moment
    }
}

/** Publishes a promised task, unless that was done before. @returns whether it was done now */
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

/** @param link the path of a link in `.spoold/ids` */
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
