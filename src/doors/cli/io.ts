import { write, writeSync } from 'node:fs'
import { isatty } from 'node:tty'
import { errnoOf } from '../../base/errors.js'
import { isJournal } from '../../base/log/output.js'
import type { OwnProcess } from './own-process.js'
import { type Screen, screenOf } from './screen.js'
import { PROCESS_SIGNALS, type Signals } from './signals.js'

/**
 * The input and output of a command line: the descriptors of the process, or replacements in a test. The working directory
 * is not included: it belongs to the process, and every relative path depends on it.
 */
export interface Io {
  readonly stdout: Sink
  readonly stderr: Sink
  /** The same sinks, without blocking this thread. Absent if writes never block for long. */
  readonly stdoutAside?: SinkAside
  readonly stderrAside?: SinkAside
  /** Opens standard input. A command that does not call it leaves standard input untouched. */
  stdin(): AsyncIterable<Uint8Array>
  /** True if standard error leads to the systemd journal. */
  readonly isJournal?: boolean
  /** True if standard error is a terminal, which obeys escape sequences. */
  readonly isWatched: boolean
  /** True if standard output is a terminal. */
  readonly isPrintedToTerminal?: boolean
  /** Returns the abilities of standard output. */
  screen(): Screen
  readonly env: Readonly<Record<string, string | undefined>>
  readonly ownProcess: OwnProcess
  readonly signals: Signals
}

/**
 * Writes all of a text before it returns.
 *
 * @throws Error with an errno, such as EPIPE if the reader has closed the pipe
 */
export type Sink = (text: string) => void
/** Resolves when all of a text is written. */
export type SinkAside = (text: string) => Promise<void>

const STDOUT = 1
const STDERR = 2
/** Delay before a retry on a pipe or terminal that another program has made non-blocking. */
const RETRY_MS = 5

/**
 * The input and output of this process. Without Node's streams: they would buffer what a pipe does not accept, and lose
 * the rest of a short write to a full disk.
 */
export function processIo(ownProcess: OwnProcess): Io {
  return {
    stdout: text => writeWhole(STDOUT, text),
    stderr: text => writeWhole(STDERR, text),
    stdoutAside: text => writeAside(STDOUT, text),
    stderrAside: text => writeAside(STDERR, text),
    stdin: () => process.stdin,
    isJournal: isJournal(STDERR),
    isWatched: isatty(STDERR) && process.env.TERM !== 'dumb',
    isPrintedToTerminal: isatty(STDOUT),
    screen: () => screenOf(process.env),
    env: process.env,
    ownProcess,
    signals: PROCESS_SIGNALS,
  }
}

function writeWhole(fd: number, text: string): void {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; )
    try {
      at += writeSync(fd, bytes, at)
    } catch (error) {
      if (errnoOf(error) !== 'EAGAIN') throw error
      sleep(RETRY_MS)
    }
}

async function writeAside(fd: number, text: string): Promise<void> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; )
    try {
      at += await written(fd, bytes, at)
    } catch (error) {
      if (errnoOf(error) !== 'EAGAIN') throw error
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
    }
}

/** Writes in another thread. @returns how many bytes were taken */
function written(fd: number, bytes: Buffer, at: number): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, at, (error, count) => (error === null ? resolve(count) : reject(error)))
  })
}

const never = new Int32Array(new SharedArrayBuffer(4))

function sleep(ms: number): void {
  Atomics.wait(never, 0, 0, ms)
}
