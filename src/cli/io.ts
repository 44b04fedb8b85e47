import { writeSync } from 'node:fs'
import { isatty } from 'node:tty'
import { errnoOf } from '../base/errors.js'
import type { OwnProcess } from './acting-owner.js'

/**
 * What a command line is given by whoever runs it: a process its own descriptors, a test others. The working directory is not
 * among it: it belongs to the process, and every relative path depends on it.
 */
export interface Io {
  readonly stdout: Sink
  readonly stderr: Sink
  /** Opens it: a command that does not read it leaves it alone. */
  stdin(): AsyncIterable<Uint8Array>
  /** A person watches standard error. */
  readonly isWatched: boolean
  readonly env: Readonly<Record<string, string | undefined>>
  readonly ownProcess: OwnProcess
}

/**
 * Takes a text whole before it returns.
 *
 * @throws Error with an errno, such as EPIPE when the reader has left
 */
export type Sink = (text: string) => void

const STDOUT = 1
const STDERR = 2
/** A pipe or a terminal that another program has made non-blocking is tried again after this time. */
const RETRY_MS = 5

/** This process's. Node's own streams would buffer what a pipe does not take, and lose the rest of a short write to a full disk. */
export function processIo(ownProcess: OwnProcess): Io {
  return {
    stdout: text => writeWhole(STDOUT, text),
    stderr: text => writeWhole(STDERR, text),
    stdin: () => process.stdin,
    isWatched: isatty(STDERR),
    env: process.env,
    ownProcess,
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

const never = new Int32Array(new SharedArrayBuffer(4))

function sleep(ms: number): void {
  Atomics.wait(never, 0, 0, ms)
}
