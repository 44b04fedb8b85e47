import { close, constants, fstatSync, lstatSync, openSync, statSync, write } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../base/errors.js'

export interface LogOutputListener {
  /** Writing works again; this many lines were dropped in between. */
  lost(lines: number): void
}

/** What waits for a slow disk or reader; more is dropped. */
const MAX_BACKLOG_BYTES = 8 * 1024 * 1024
/** How long to wait before retrying a full disk, or a reader that does not read. */
const RETRY_MS = 100
/** How long the exit of the process waits for a reader that does not read. */
const LAST_CHANCE_MS = 1000
export const STDERR = 2

/**
 * Where a log's bytes go. A write never blocks the event loop and never throws: what a full disk does not take waits,
 * and is dropped past MAX_BACKLOG_BYTES. (pino's own writer loops for ever in its last flush on a full disk, and does not
 * tell the descriptor of a file that it has opened anew, which our children need.)
 *
 * States: idle → writing → idle, or → pausing (the last write failed) → writing.
 */
export class LogOutput {
  readonly #file: string | null
  readonly #listener: LogOutputListener
  readonly #encoding: 'utf8' | 'latin1'
  /** What children inherit. */
  #fd: number
  /** What is written to: the same file. */
  #out: number
  /** Not to be closed now. */
  #fdInUse: number | undefined
  #state: 'idle' | 'writing' | 'pausing' = 'idle'
  #lines: string[] = []
  #lineChars = 0
  /** On its way, or what the last write did not take. */
  #chunk = Buffer.alloc(0)
  #dropped = 0

  /**
   * @param file appended to; null: standard error
   * @param encoding of what is written; `latin1`: one character a byte
   * @throws SpooldError LOG_UNWRITABLE
   */
  constructor(file: string | null, listener: LogOutputListener, encoding: 'utf8' | 'latin1' = 'utf8') {
    this.#encoding = encoding
    this.#file = file === null ? null : resolve(file) // the process may be elsewhere when it is opened anew
    this.#listener = listener
    this.#fd = file === null ? STDERR : openLogFile(file)
    this.#out = unblocked(this.#fd)
  }

  get fd(): number {
    return this.#fd
  }

  write(line: string): void {
    if (this.#lineChars + this.#chunk.length > MAX_BACKLOG_BYTES) {
      this.#dropped++
      return
    }
    this.#lines.push(line)
    this.#lineChars += line.length
    if (this.#state === 'idle') this.#next()
  }

  /**
   * Opens the file anew when it was moved away. What cannot be opened leaves everything as it is.
   *
   * @throws SpooldError LOG_UNWRITABLE
   */
  reopen(): void {
    if (this.#file === null || isSameFile(this.#file, this.#fd)) return
    const [fd, out] = [this.#fd, this.#out]
    this.#fd = openLogFile(this.#file)
    this.#out = unblocked(this.#fd)
    if (fd !== out) closeQuietly(fd)
    if (out !== this.#fdInUse) closeQuietly(out)
  }

  /** Resolves when everything is written, or when nobody takes it. */
  async end(): Promise<void> {
    const deadline = performance.now() + LAST_CHANCE_MS
    while (this.#state !== 'idle' && performance.now() < deadline)
      await new Promise(resolve => setTimeout(resolve, 1))
  }

  #next(): void {
    if (this.#chunk.length === 0) {
      this.#chunk = Buffer.from(this.#lines.join(''), this.#encoding)
      this.#lines = []
      this.#lineChars = 0
    }
    this.#state = this.#chunk.length === 0 ? 'idle' : 'writing'
    if (this.#state === 'idle') return
    const fd = this.#out
    this.#fdInUse = fd
    write(fd, this.#chunk, (error, bytes) => {
      this.#fdInUse = undefined
      if (fd !== this.#out) closeQuietly(fd) // the file was opened anew meanwhile
      if (error === null) this.#wrote(bytes)
      else this.#failed(error)
    })
  }

  #wrote(bytes: number): void {
    this.#chunk = this.#chunk.subarray(bytes)
    const dropped = this.#dropped
    this.#dropped = 0
    if (dropped > 0) this.#listener.lost(dropped)
    this.#next()
  }

  #failed(error: Error): void {
    if (errnoOf(error) === 'EPIPE') this.#chunk = Buffer.alloc(0) // its reader is gone for good
    this.#state = 'pausing'
    setTimeout(() => this.#next(), RETRY_MS).unref()
  }
}

/**
 * Opens a log for appending: what every child writes to as well goes to its end.
 *
 * @throws SpooldError LOG_UNWRITABLE
 */
export function openLogFile(file: string): number {
  if (/^[^/]+:[0-9]+$/.test(file))
    throw new SpooldError('LOG_UNWRITABLE', `logs are not sent over UDP, name a file instead of ${file}`)
  try {
    checkLink(file)
    return openSync(file, APPEND | (isLink(file) ? 0 : constants.O_NOFOLLOW), 0o640)
  } catch (error) {
    throw new SpooldError(
      'LOG_UNWRITABLE',
      `the log file ${file} cannot be opened (${messageOf(error)}); name another one, or fix its directory`,
      { cause: error },
    )
  }
}

const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT

function isLink(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() === true
}

/** Root goes by a link, such as /dev/stdout, only where nobody else can make one; and by no second name there. */
function checkLink(file: string): void {
  const stats = lstatSync(file, { throwIfNoEntry: false })
  if (process.geteuid?.() !== 0 || stats === undefined) return
  if (!stats.isSymbolicLink() && !(stats.isFile() && stats.nlink > 1)) return
  const directory = statSync(dirname(file))
  if (directory.uid === 0 && (directory.mode & 0o022) === 0) return
  throw new Error('it is a link, in a directory that is not only root’s')
}

/**
 * A pipe or a terminal, opened anew so that a write returns when its reader does not read; else the process could not even
 * exit, which waits for the thread that writes. (A flag on `fd` itself would count for everybody who shares it, and is
 * cleared with each child that inherits it.) Sockets, and pipes of other users, cannot be opened like that.
 */
function unblocked(fd: number): number {
  const stats = fstatSync(fd)
  if (!stats.isFIFO() && !stats.isCharacterDevice()) return fd
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch {
    return fd
  }
}

function isSameFile(path: string, fd: number): boolean {
  const [there, here] = [statSync(path, { throwIfNoEntry: false }), fstatSync(fd)]
  return there?.ino === here.ino && there.dev === here.dev
}

function closeQuietly(fd: number): void {
  close(fd, () => {})
}
