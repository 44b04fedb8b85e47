import { randomBytes } from 'node:crypto'
import { closeSync, constants } from 'node:fs'
import { messageOf, SpooldError } from '../base/errors.js'
import { toByteString, toFsPath } from '../task/ref.js'
import { openSync, unlinkSync } from './anchored.js'
import { type LockChoice, type LockKind, loadOfd, type TryOfdLock } from './lock.js'
import { makeState } from './state-directory.js'

/** What the file system under a spool can be trusted with. */
export interface Capabilities {
  readonly locks: LockKind
  /** Why it is not record locks, under `auto`. */
  readonly because?: string
}

/**
 * Tries the spool's file system out, with files in `.spoold`.
 *
 * @param choice `spooler-lock`; `auto` takes record locks where two descriptors exclude each other
 * @throws SpooldError LOCKS_UNUSABLE when `ofd` was asked for and does not work
 */
export async function probeSpool(spool: string, choice: LockChoice): Promise<Capabilities> {
  if (choice === 'lockfile') return { locks: 'lockfile' }
  const fault = await probeOfd(spool)
  if (fault === undefined) return { locks: 'ofd' }
  if (choice === 'auto') return { locks: 'lockfile', because: fault }
  throw new SpooldError(
    'LOCKS_UNUSABLE',
    `spooler-lock = ofd does not work in ${spool}: ${fault}. Use spooler-lock = lockfile there, or mount it with locking`,
  )
}

/** What a probe found: undefined when OFD locks work in this directory, else why they do not. */
async function probeOfd(spool: string): Promise<string | undefined> {
  try {
    const tryOfdLock = await loadOfd()
    return withProbeFile(spool, (first, second) => exclusionFault(first, second, tryOfdLock))
  } catch (error) {
    return messageOf(error)
  }
}

function exclusionFault(first: number, second: number, tryOfdLock: TryOfdLock): string | undefined {
  if (!tryOfdLock(first)) return 'a fresh file is already locked'
  return tryOfdLock(second) ? 'two holders get the same lock' : undefined
}

function withProbeFile<T>(spool: string, probe: (first: number, second: number) => T): T {
  const name = `probe-${randomBytes(8).toString('hex')}`
  const path = toFsPath(`${makeState(toByteString(spool))}/${name}`)
  const first = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600)
  const second = openSync(path, constants.O_RDWR)
  try {
    return probe(first, second)
  } finally {
    closeSync(second)
    closeSync(first)
    unlinkSync(path)
  }
}
