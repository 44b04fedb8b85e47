import type { ChildProcess } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { messageOf } from '../../../base/errors.js'

/** How long to read the remaining output of a dead host. */
const LAST_WORDS_MS = 100

/** How it died, as the end of a sentence: `was killed by SIGSEGV`. */
export type Death = string

export function deathOf(child: ChildProcess): Promise<Death> {
  return new Promise(resolve => {
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `exited with code ${code}` : `was killed by ${signal}`),
    )
    child.once('error', error => resolve(`could not be run: ${messageOf(error)}`))
  })
}

/**
 * Closes the pipes once `last` has been read to its end. A child process of a handler may hold the other ends open
 * after the host's death, so the wait is limited.
 */
export async function closed(child: ChildProcess, fds: readonly number[], last: number): Promise<void> {
  const pipeOf = (fd: number) => child.stdio?.[fd] as Duplex | null | undefined // there are none if the fork failed
  const pipe = pipeOf(last)
  if (pipe && !pipe.readableEnded)
    await Promise.race([new Promise(read => pipe.once('end', read)), setTimeout(LAST_WORDS_MS)])
  for (const fd of fds) pipeOf(fd)?.destroy()
}
