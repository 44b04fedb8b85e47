import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, fstatSync, openSync, rmdirSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { toByteString } from '../../base/task/ref.js'
import type { LockChoice } from '../../engines/spool/locker.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { probeSpool } from '../../engines/spool/probe.js'
import { makeState } from '../../engines/spool/state-directory.js'
import { type Watch, type WatchChoice, watchDirectory } from '../../system/files/directory-watch.js'
import { isLocal } from '../../system/files/stamps.js'
import type { Diagnosis } from './diagnosis.js'

/** Tests a spool with files in `.spoold`, and removes them. */
export async function* probe(
  spool: string,
  locks: LockChoice,
  watch: WatchChoice,
): AsyncGenerator<Diagnosis> {
  const state = join(spool, STATE_DIRECTORY)
  const isNew = !existsSync(state)
  try {
    makeState(toByteString(spool))
    yield* probeLocks(spool, locks)
    makeState(toByteString(spool))
    yield probeClock(spool, state)
    yield await probeEvents(spool, state, watch)
  } finally {
    if (isNew) removeEmpty(state)
  }
}

/** Removes a directory, unless a daemon that has started in the meantime uses it. */
function removeEmpty(directory: string): void {
  try {
    rmdirSync(directory)
  } catch {}
}

async function* probeLocks(spool: string, choice: LockChoice): AsyncGenerator<Diagnosis> {
  const about = { topic: 'locks', about: spool } as const
  const found = await probeSpool(spool, choice).catch((error: unknown) => {
    if (error instanceof SpooldError) return { fault: error.message }
    throw error
  })
  if ('fault' in found)
    return yield {
      level: 'error',
      ...about,
      text: found.fault,
      fix: 'set spooler-lock = lockfile, and run no uWSGI on it',
    }
  const { locks, because } = found
  if (because !== undefined)
    yield {
      level: 'warning',
      ...about,
      text: `record locks do not work (${because}): claims are leases, which uWSGI does not see`,
      fix: 'mount it with locking, or set spooler-lock = lockfile and run no uWSGI on it',
    }
  else
    yield {
      level: 'ok',
      ...about,
      text: locks === 'ofd' ? 'record locks exclude one another' : 'claims are leases',
    }
}

/** Much more than a tick of the kernel's clock. */
const MAX_SKEW_MS = 2000

/** Compares the clocks, because due times are compared with our clock, but file times come from the file system's. */
function probeClock(spool: string, state: string): Diagnosis {
  const before = Date.now()
  const madeAt = withFile(state, fd => fstatSync(fd).ctimeMs)
  const skewMs = Math.round(madeAt - (before + Date.now()) / 2)
  const about = { topic: 'clock', about: spool } as const
  if (Math.abs(skewMs) <= MAX_SKEW_MS)
    return { level: 'ok', ...about, text: "the file system's clock is ours" }
  return {
    level: 'warning',
    ...about,
    text: `the file system's clock is ${(Math.abs(skewMs) / 1000).toFixed(1)} s ${skewMs > 0 ? 'ahead of' : 'behind'} ours: tasks are ${skewMs > 0 ? 'late' : 'early'} by that`,
    fix: 'timedatectl set-ntp true, here and on the file server',
  }
}

const PATIENCE_MS = 5000
const TOUCH_MS = 50

/** Checks that a watch really fires, in `.spoold`, where the test wakes no daemon. */
async function probeEvents(spool: string, state: string, choice: WatchChoice): Promise<Diagnosis> {
  const about = { topic: 'events', about: spool } as const
  if (choice === 'off')
    return {
      level: 'note',
      ...about,
      text: 'spooler-watch = off: new tasks are found every spooler-frequency',
    }
  const startedAt = performance.now()
  if (choice === 'poll' || !(await isLocal(state)))
    return { level: 'ok', ...about, text: 'the directory is polled once per second' }
  const fault = await waitForEvent(state)
  if (fault === undefined)
    return {
      level: 'ok',
      ...about,
      text: `a new file is noticed, ${Math.ceil(performance.now() - startedAt)} ms after the watch was asked for`,
    }
  return {
    level: 'warning',
    ...about,
    text: `no event of a new file (${fault.text}): new tasks are found every spooler-frequency`,
    fix: fault.isLimit
      ? 'sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512'
      : 'set spooler-watch = poll',
  }
}

interface Fault {
  readonly text: string
  readonly isLimit: boolean
}

async function waitForEvent(directory: string): Promise<Fault | undefined> {
  let watch: Watch | undefined
  let touches: NodeJS.Timeout | undefined
  let silence: NodeJS.Timeout | undefined
  try {
    return await new Promise<Fault | undefined>(resolve => {
      const fail = (error: unknown) => resolve(faultOf(error))
      try {
        watch = watchDirectory(directory, { event: () => resolve(undefined), lost: fail })
      } catch (error) {
        return fail(error)
      }
      touches = setInterval(() => tryTouch(directory, fail), TOUCH_MS)
      silence = setTimeout(resolve, PATIENCE_MS, { text: `waited ${PATIENCE_MS / 1000} s`, isLimit: false })
    })
  } finally {
    clearInterval(touches)
    clearTimeout(silence)
    watch?.close()
  }
}

function faultOf(error: unknown): Fault {
  const isLimit = ['EMFILE', 'ENFILE', 'ENOSPC'].includes(errnoOf(error) ?? '')
  return { text: messageOf(error), isLimit }
}

function tryTouch(directory: string, fail: (error: unknown) => void): void {
  try {
    withFile(directory, () => {})
  } catch (error) {
    fail(error)
  }
}

/** Uses a new file with a name like those of spool/probe, which fsck recognizes. */
function withFile<T>(directory: string, use: (fd: number) => T): T {
  const path = join(directory, `probe-${randomBytes(8).toString('hex')}`)
  const fd = openSync(path, 'wx', 0o600)
  try {
    return use(fd)
  } finally {
    closeSync(fd)
    unlinkSync(path)
  }
}
