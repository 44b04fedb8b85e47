import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { counted } from '../../base/counted.js'
import { errnoOf } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { describePauses } from '../../base/task/pause.js'
import { displayName, toByteString } from '../../base/task/ref.js'
import type { LockChoice } from '../../engines/spool/locker.js'
import { neighboursOf } from '../../engines/spool/neighbours.js'
import { shownPauses } from '../../engines/spool/pauses.js'
import { readPeriodic } from '../../engines/spool/periodic-states.js'
import {
  asideCommand,
  checkSpool,
  checkWay,
  makeCommand,
  type Owner,
  sameDirectory,
} from '../../engines/spool/permissions.js'
import { scanAll } from '../../engines/spool/scan.js'
import { compareVersions } from '../../engines/spool/task-order.js'
import { realPathOf } from '../../system/file-stats.js'
import type { WatchChoice } from '../../system/files/directory-watch.js'
import { type Diagnosis, diagnosisOf } from './diagnosis.js'
import { checkMount, checkRoom } from './file-system.js'
import { probe } from './probes.js'

interface SpoolPatient {
  /** The configured path, made absolute. */
  readonly path: string
  /** True if another daemon runs the spool's tasks. */
  readonly isExternal: boolean
  /** True if priority directories are entered. */
  readonly isOrdered: boolean
  readonly locks: LockChoice
  readonly watch: WatchChoice
  /** Who creates a missing spool (root or not), and for which user. */
  readonly maker: { readonly isRoot: boolean; readonly owner: Owner }
}

/** Examines one spool directory, as the user of this process. */
export async function* examineSpool(patient: SpoolPatient): AsyncGenerator<Diagnosis> {
  const { path, isExternal, isOrdered, locks, watch, maker } = patient
  try {
    const spool = yield* findSpool(path, maker)
    if (spool === undefined) return
    checkSpool(spool)
    yield {
      level: 'ok',
      topic: 'spool',
      about: spool,
      text: `uid ${process.geteuid?.()} may list, write and enter it`,
    }
    yield* checkMode(spool)
    yield* checkPauses(spool)
    yield* checkPeriodic(spool)
    yield* checkMount(spool)
    yield* checkRoom(spool)
    if (isExternal) return
    if (!isOrdered) yield* checkPriorities(spool)
    yield* probe(spool, locks, watch)
  } catch (error) {
    yield diagnosisOf('spool', path, error)
  }
}

/** @returns the spool's real path; undefined if it does not exist, which has been reported if it matters */
function* findSpool(
  path: string,
  { isRoot, owner }: SpoolPatient['maker'],
): Generator<Diagnosis, string | undefined> {
  const about = { topic: 'spool', about: path } as const
  checkWay(path)
  try {
    const real = sameDirectory(path, realpathSync.native(path))
    if (statSync(real).isDirectory()) return real
    yield {
      level: 'error',
      ...about,
      text: 'it is not a directory',
      fix: `${asideCommand(path)} && ${makeCommand(path, owner)}`,
    }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
    const canBeMade = isRoot || isWritable(dirname(path))
    yield {
      level: canBeMade ? 'note' : 'error',
      ...about,
      text: canBeMade
        ? 'it does not exist yet; the daemon creates it'
        : `it does not exist, and cannot be created in ${dirname(path)}`,
      fix: makeCommand(path, owner),
    }
  }
  return undefined
}

function isWritable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

function* checkPauses(spool: string): Generator<Diagnosis> {
  const { pauses, fault, isUnread } = shownPauses(toByteString(spool))
  const about = { topic: 'spool', about: spool } as const
  const fix = `spoold resume --all ${shellWord(spool)}`
  if (isUnread) yield { level: 'error', ...about, text: `it is unknown what is paused, because ${fault}` }
  else if (fault !== undefined)
    yield { level: 'error', ...about, text: `no task starts, because ${fault}`, fix }
  if (pauses.length > 0)
    yield { level: 'warning', ...about, text: `paused: ${describePauses({ pauses })}`, fix }
}

function* checkPeriodic(spool: string): Generator<Diagnosis> {
  const broken = [...readPeriodic(toByteString(spool)).values()].filter(({ entry }) => entry === undefined)
  if (broken.length > 0)
    yield {
      level: 'warning',
      topic: 'spool',
      about: spool,
      text: `the state of ${broken.length} periodic tasks cannot be read; they start afresh`,
      fix: `spoold fsck --repair ${shellWord(spool)}`,
    }
}

/**
 * Checks the mode. Anyone who may write to the spool decides what the handlers are called with. In a sticky directory, only its
 * owner removes what others write.
 */
function* checkMode(spool: string): Generator<Diagnosis> {
  const { mode, uid: owner } = statSync(spool)
  const uid = process.geteuid?.() ?? 0
  const about = { topic: 'spool', about: spool } as const
  const text = `its mode is ${(mode & 0o7777).toString(8).padStart(4, '0')}`
  if ((mode & 0o002) !== 0) {
    const who = 'all users of this machine may write and remove tasks'
    const change = (mode & 0o1020) === 0o020 ? 'o-w,+t' : 'o-w'
    yield { level: 'warning', ...about, text: `${text}: ${who}`, fix: `chmod ${change} ${shellWord(spool)}` }
  } else if ((mode & 0o1020) === 0o020) {
    const who = 'members of its group may move each other’s tasks, and .spoold, away'
    yield { level: 'note', ...about, text: `${text}: ${who}`, fix: `chmod +t ${shellWord(spool)}` }
  }
  if ((mode & 0o1000) !== 0 && uid !== 0 && uid !== owner) {
    const what = `it belongs to uid ${owner}, so tasks of other users stay when uid ${uid} has run them`
    yield {
      level: 'warning',
      ...about,
      text: `${text}, and ${what}`,
      fix: `chown ${uid} ${shellWord(spool)}`,
    }
  }
}

/** Counts tasks in priority directories that the configuration does not enter. @param spool its real path */
async function* checkPriorities(spool: string): AsyncGenerator<Diagnosis> {
  const counts = new Map<string, number>()
  await scanAll(toByteString(spool), {
    task(ref) {
      const cut = ref.lastIndexOf('/') + 1
      if (cut > 0) counts.set(ref.slice(0, cut), (counts.get(ref.slice(0, cut)) ?? 0) + 1)
      return true
    },
    failed() {}, // whether this user may enter a directory is reported elsewhere
  })
  const sorted = [...counts].sort(([a], [b]) => compareVersions(a, b))
  for (const [prefix, count] of sorted)
    yield {
      level: 'warning',
      topic: 'spool',
      about: spool,
      text: `${count === 1 ? '1 task is' : `${count} tasks are`} not run in ${displayName(prefix)}: priority directories need spooler-ordered = true`,
      fix: 'set spooler-ordered = true, or move the files into the spool itself',
    }
}

const MAX_COMMAND_CHARS = 80

/** Reports other processes that use a spool. */
export function* checkNeighbours(path: string, claimsByLease: boolean): Generator<Diagnosis> {
  const spool = realPathOf(path)
  if (spool === undefined) return
  const neighbours = neighboursOf(toByteString(spool))
  for (const { pid, command, isUwsgi, workers } of neighbours) {
    const about = { topic: 'neighbours', about: spool } as const
    const text = `pid ${pid}${withWorkers(workers)} uses it (${command.slice(0, MAX_COMMAND_CHARS)})`
    if (isUwsgi && claimsByLease)
      yield {
        level: 'error',
        ...about,
        text: `${text}, but does not see leases: tasks may run twice`,
        fix: `kill ${pid}, or set spooler-lock = auto`,
      }
    else yield { level: 'note', ...about, text: `${text}; each task still has one runner at a time` }
  }
  if (neighbours.length === 0)
    yield { level: 'ok', topic: 'neighbours', about: spool, text: 'no other process uses it' }
}

/** Returns ` with 2 workers`, for people. */
function withWorkers(count: number): string {
  return count === 0 ? '' : ` with ${counted(count, 'worker')}`
}
