import { close, fstatSync, statSync, write } from 'node:fs'
import { resolve } from 'node:path'
import { errnoOf, messageOf, quietly, SpooldError } from '../errors.js'

/** The functions that open a log (system/opener.ts). */
export interface LogFiles {
  append(path: string, mode: number): number
  /** Opens a pipe or terminal once more, so that a write never waits; returns the same descriptor for anything else. */
  again(fd: number): number
}

/** The most bytes that wait for a slow disk or reader. Further lines are dropped. */
const MAX_BACKLOG_BYTES = 8 * 1024 * 1024
/** The delay before a write to a full disk, or to a reader that does not read, is tried again. It doubles each time. */
const FIRST_RETRY_MS = 1
const LAST_RETRY_MS = 100
/** An exit waits this long for a reader that reads nothing. */
const LAST_CHANCE_MS = 1000
/** An exit waits at most this long, however slowly the reader reads. */
const LAST_CHANCES_MS = 15_000
/** An exit waits this long for a blocked write, which goes on only when most of a socket's buffer has been read. */
const BLOCKED_CHANCE_MS = 5000
/** The most bytes of a write to a reader: about what a pipe takes, because a slow reader shows only between two writes. */
const READ_BYTES = 64 * 1024
const NEWLINE = 10
export const STDERR = 2

/**
 * Writes a log's bytes. A write never blocks the event loop and never throws: on a full disk the bytes wait, and are dropped
 * beyond MAX_BACKLOG_BYTES. (pino's own writer loops forever in its last flush on a full disk, and does not expose the
 * descriptor of a file that it has reopened, which our children need.)
 *
 * States: idle → writing → idle, or → pausing (the last write failed) → writing.
 */
export class LogOutput {
  readonly #file: string | null
  readonly #files: LogFiles
  readonly #lost: (lines: number) => void
  readonly #encoding: 'utf8' | 'latin1'
  /** The descriptor that children inherit. */
  #fd: number
  /** The descriptor that we write to. It leads to the same file. */
  #out: number
  /** The most bytes of a write: any number for a file, which has no reader to wait for. */
  readonly #mostBytes: number
  /** The descriptor in use by a write, which must not be closed. */
  #fdInUse: number | undefined
  #state: 'idle' | 'writing' | 'pausing' = 'idle'
  #lines: string[] = []
  #lineBytes = 0
  /** The bytes that are being written, or the rest of an incomplete write. */
  #chunk = Buffer.alloc(0)
  #dropped = 0
  #retryMs = FIRST_RETRY_MS
  #wroteAt = 0

  /**
   * @param file the file to append to; null means standard error
   * @param files opens it
   * @param lost called with the number of dropped lines, once writing works again
   * @param encoding of the text; `latin1` means one character per byte
   * @throws SpooldError LOG_UNWRITABLE
   */
  constructor(
    file: string | null,
    files: LogFiles,
    lost: (lines: number) => void,
    encoding: 'utf8' | 'latin1' = 'utf8',
  ) {
    this.#encoding = encoding
    this.#files = files
    this.#file = file === null ? null : resolve(file) // the current directory may differ when the file is reopened
    this.#lost = lost
    this.#fd = file === null ? STDERR : openLogFile(file, files)
    this.#out = files.again(this.#fd)
    this.#mostBytes =
      quietly(() => fstatSync(this.#out).isFile()) === true ? Number.POSITIVE_INFINITY : READ_BYTES
  }

  get fd(): number {
    return this.#fd
  }

  write(line: string): void {
    if (this.#lineBytes + this.#chunk.length > MAX_BACKLOG_BYTES) {
      this.#dropped++
      return
    }
    this.#lines.push(line)
    this.#lineBytes += Buffer.byteLength(line, this.#encoding)
    if (this.#state !== 'idle') return
    this.#state = 'writing'
    queueMicrotask(() => this.#next()) // with the lines that follow: a report of many tasks is one write
  }

  /**
   * Reopens the file if it was moved. On failure nothing changes.
   *
   * @throws SpooldError LOG_UNWRITABLE
   */
  reopen(): void {
    if (this.#file === null || isSameFile(this.#file, this.#fd)) return
    const [fd, out] = [this.#fd, this.#out]
    this.#fd = openLogFile(this.#file, this.#files)
    this.#out = this.#files.again(this.#fd)
    if (fd !== out) closeQuietly(fd)
    if (out !== this.#fdInUse) closeQuietly(out)
  }

  /** Resolves when everything is written, or the reader is gone, or stands still. */
  async end(): Promise<void> {
    const endsAt = performance.now()
    const deadline = () => {
      const chanceMs = this.#state === 'writing' ? BLOCKED_CHANCE_MS : LAST_CHANCE_MS
      return Math.min(Math.max(endsAt, this.#wroteAt) + chanceMs, endsAt + LAST_CHANCES_MS)
    }
    while (this.#state !== 'idle' && performance.now() < deadline())
      await new Promise(resolve => setTimeout(resolve, 1))
  }

  #next(): void {
    if (this.#chunk.length === 0) {
      this.#chunk = Buffer.from(this.#lines.join(''), this.#encoding)
      this.#lines = []
      this.#lineBytes = 0
    }
    this.#state = this.#chunk.length === 0 ? 'idle' : 'writing'
    if (this.#state === 'idle') return
    const fd = this.#out
    this.#fdInUse = fd
    write(fd, this.#piece, (error, bytes) => {
      this.#fdInUse = undefined
      if (fd !== this.#out) closeQuietly(fd) // the file was reopened in the meantime
      if (error === null) this.#wrote(bytes)
      else this.#failed(error)
    })
  }

  /** The next bytes to write: whole lines, because children write between two pieces. */
  get #piece(): Buffer {
    if (this.#chunk.length <= this.#mostBytes) return this.#chunk
    const last = this.#chunk.lastIndexOf(NEWLINE, this.#mostBytes - 1)
    const end = last === -1 ? this.#chunk.indexOf(NEWLINE) : last
    return end === -1 ? this.#chunk : this.#chunk.subarray(0, end + 1)
  }

  #wrote(bytes: number): void {
    this.#chunk = this.#chunk.subarray(bytes)
    this.#retryMs = FIRST_RETRY_MS
    this.#wroteAt = performance.now()
    const dropped = this.#dropped
    this.#dropped = 0
    if (dropped > 0) this.#lost(dropped)
    this.#next()
  }

  #failed(error: Error): void {
    if (errnoOf(error) === 'EPIPE') this.#chunk = Buffer.alloc(0) // the reader is gone for good
    this.#state = 'pausing'
    setTimeout(() => this.#next(), this.#retryMs).unref()
    this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS)
  }
}

/**
 * Opens a log for appending, so that what children write also goes to its end.
 *
 * @throws SpooldError LOG_UNWRITABLE
 */
export function openLogFile(file: string, files: LogFiles): number {
  if (/^[^/]+:[0-9]+$/.test(file))
    throw new SpooldError('LOG_UNWRITABLE', `logs are not sent over UDP, name a file instead of ${file}`)
  try {
    return files.append(file, 0o640)
  } catch (error) {
    throw new SpooldError(
      'LOG_UNWRITABLE',
      `the log file ${file} cannot be opened (${messageOf(error)}); name another one, or fix its directory`,
      { cause: error },
    )
  }
}

function isSameFile(path: string, fd: number): boolean {
  const [there, here] = [statSync(path, { throwIfNoEntry: false }), fstatSync(fd)]
  return there?.ino === here.ino && there.dev === here.dev
}

function closeQuietly(fd: number): void {
  close(fd, () => {})
}

/**
 * True if a descriptor leads to the systemd journal: JOURNAL_STREAM names the device and inode of the stream that the service
 * manager has made (systemd.exec(5)). A descriptor that was redirected since then has another device or inode.
 */
export function isJournal(fd: number): boolean {
  const { JOURNAL_STREAM } = process.env
  if (JOURNAL_STREAM === undefined) return false
  const { dev, ino } = fstatSync(fd, { bigint: true })
  return JOURNAL_STREAM === `${dev}:${ino}`
}

/** A severity of syslog(3): error, warning, information. */
export type Severity = 3 | 4 | 6

/** Puts before each line the mark of its severity, which the journal takes off (sd-daemon(3)). */
export function withSeverity(severity: Severity, lines: string): string {
  return `<${severity}>${lines.replace(/\n(?!$)/g, `\n<${severity}>`)}`
}
