import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  readSync,
  type Stats,
} from 'node:fs'
import { errnoOf, messageOf, quietly } from '../../../base/errors.js'
import type { Parked } from '../../../base/task/parked.js'
import { priorityOf, type Ref, toFsPath } from '../../../base/task/ref.js'
import { HEADER_BYTES, MAX_PACKET_BYTES } from '../../../formats/protocol/header.js'
import type { Hide } from '../../../formats/protocol/hide.js'
import { isNamed, TASK_KEY, taskNameOf } from '../../../formats/protocol/named.js'
import { encodePacket } from '../../../formats/protocol/packet.js'
import type { Sight } from '../../../formats/protocol/sight.js'
import { parseVars, type Vars } from '../../../formats/protocol/vars.js'
import { openSafely } from '../../../system/files/anchored-path.js'
import { type Locks, readLocks } from '../../../system/files/lock-table.js'
import { type DeadLetter, DeadLetters, deadNameOf, deadPathOf } from '../dead-letters.js'
import { isLeased, leasesOf } from '../locker.js'
import { createdAtMicros } from '../names.js'
import { Records, type TaskRecord } from '../records.js'
import { type ScanVisitor, scanAll } from '../scan.js'
import { dueAtMsOf, heldMtimeOf, packetIn } from '../spool-file.js'
import { pastOf, STARTED } from '../state-byte.js'

/** The state of a task, as shown to people. */
export const TASK_STATES = [
  'due', // may run now
  'parked', // due, and a daemon keeps it back: only a daemon says so
  'waiting', // not due yet
  'retrying', // failed, and waiting for its next run
  'held', // by `spoold hold`
  'running', // locked by a process
  'incomplete', // shorter than its own header says
  'malformed', // not a spool packet
  'unreadable', // cannot be opened
  'dead', // a dead letter
] as const
export type TaskState = (typeof TASK_STATES)[number]

/** Returns the state that decides what can be done to a task: one that a daemon keeps back is due. */
export function ownStateOf(state: TaskState): Exclude<TaskState, 'parked'> {
  return state === 'parked' ? 'due' : state
}

/** Everything that can be known about a task without changing anything. */
export interface TaskView {
  /** In a directory, the path below the spool; that of a dead letter begins with `.spoold/dead/`. */
  readonly ref: Ref
  readonly state: TaskState
  /** Undefined if the ref says it. */
  readonly priority?: number | null
  /** When it is due; epoch ms. */
  readonly dueAtMs: number
  readonly file: Inspection
  readonly record?: TaskRecord
  readonly letter?: DeadLetter
  readonly parked?: Parked
}

/** Tells why a due task is not run; undefined: nothing keeps it back, as far as is known. */
type WhyParked = (ref: Ref, vars: Vars) => Parked | undefined

/** A read-only view of one spool: takes no locks, and changes nothing. */
export class SpoolView {
  readonly spool: string
  readonly #locks = readLocks()
  /** When the view was opened, epoch ms. */
  readonly nowMs = Date.now()
  readonly #records: Records
  readonly #letters: DeadLetters
  readonly #hasLeases: boolean
  readonly #whyParked: WhyParked

  /** @param spool its real path, a byte string @param whyParked what daemons have said; without it, no task is parked */
  constructor(spool: string, whyParked: WhyParked = () => undefined) {
    this.spool = spool
    this.#records = new Records(spool)
    this.#letters = new DeadLetters(spool)
    this.#hasLeases = hasLeases(spool)
    this.#whyParked = whyParked
  }

  /**
   * Calls `visit` for each task, including those in priority directories, even if the spool is not ordered. The scan ends
   * when `visit` returns false.
   *
   * @throws the file system's error if the spool cannot be listed
   */
  scan(visit: (ref: Ref) => boolean, failed: ScanVisitor['failed']): Promise<void> {
    return scanAll(this.spool, { task: visit, failed })
  }

  /** The paths of the dead letters, in directory order. */
  async *dead(): AsyncGenerator<Ref> {
    for await (const name of this.#letters.names()) yield deadPathOf(name)
  }

  /** Returns a task as it is now; undefined if it is gone. */
  view(ref: Ref): TaskView | undefined {
    const task = this.#look(ref)
    const vars = task?.state === 'due' ? task.file.vars : undefined
    const parked = vars === undefined ? undefined : this.#whyParked(ref, vars)
    return task === undefined || parked === undefined ? task : { ...task, state: 'parked', parked }
  }

  #look(ref: Ref): TaskView | undefined {
    const found = inspectFile(`${this.spool}/${ref}`, this.#locks, this.nowMs)
    const { state, dueAtMs } = found
    if (state === 'gone') return undefined
    const name = deadNameOf(ref)
    if (name !== undefined) {
      const letter = quietly(() => this.#letters.read(name))
      return { ref, state: 'dead', dueAtMs, file: found, ...(letter === undefined ? {} : { letter }) }
    }
    const record = quietly(() => this.#records.of(ref, found.mark, found.mtimeMs))
    const unsettled = this.#unsettled(ref, found, record)
    const file = unsettled === undefined ? found : { ...found, detail: unsettled }
    const timed = this.#timed(this.#stateOf(ref, state), file, record)
    return { ref, ...timed, file, ...(record === undefined ? {} : { record }) }
  }

  /** Returns why a task's last run is not settled, or why its next run cannot begin, until somebody removes the obstacle. */
  #unsettled(
    ref: Ref,
    { state, mark, vars }: Inspection,
    record: TaskRecord | undefined,
  ): string | undefined {
    if (state === 'running' || vars === undefined) return undefined
    const past = pastOf(mark)
    if (past === 'done') return 'it has run to SPOOL_OK, and could not be removed'
    if (record?.burial !== undefined || past === 'to-bury') return 'it is to be buried, and could not be'
    const why = unwritable(`${this.spool}/${ref}`)
    return why === undefined ? undefined : `it cannot be claimed: ${why}`
  }

  #timed(
    state: TaskState,
    file: Inspection,
    record: TaskRecord | undefined,
  ): Pick<TaskView, 'state' | 'dueAtMs'> {
    const { nextRunAt = 0, isTimeUnset, attempts = 0 } = record ?? {}
    const dueAtMs = isTimeUnset === true ? Math.max(nextRunAt, file.dueAtMs) : file.dueAtMs
    if (state !== 'due' && state !== 'waiting') return { state, dueAtMs }
    const heldMtime = heldMtimeOf(file.mtimeMs) ?? record?.heldMtime
    if (heldMtime !== undefined) return { state: 'held', dueAtMs: heldMtime }
    if (dueAtMs <= this.nowMs) return { state: 'due', dueAtMs }
    return { state: attempts > 0 ? 'retrying' : 'waiting', dueAtMs }
  }

  #stateOf(ref: Ref, state: Exclude<FileState, 'gone'>): TaskState {
    return this.#hasLeases && quietly(() => isLeased(this.spool, ref)) === true ? 'running' : state
  }
}

function hasLeases(spool: string): boolean {
  return quietly(() => existsSync(toFsPath(leasesOf(spool))), false)
}

/** Returns a task's priority; null if it has none, and therefore runs last. */
export function taskPriority({ ref, priority }: TaskView): number | null {
  return priority === undefined ? priorityOf(deadNameOf(ref) ?? ref) : priority
}

/**
 * When the task was created, epoch ms: taken from a name of uWSGI's form. For other names, it is the earliest time in the
 * file's stats and in its record; undefined if there is none.
 */
export function arrivedMsOf({ ref, file, record, letter }: TaskView, nowMs: number): number | undefined {
  const createdMs = (createdAtMicros(letter?.ref ?? deadNameOf(ref) ?? ref) ?? Number.NaN) / 1000
  if (createdMs <= nowMs) return Math.floor(createdMs)
  const failedMs = (letter ?? record)?.firstFailureAt
  const known = [file.sinceMs, failedMs].filter(ms => ms !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** When the task arrived or, for a dead letter, was buried; epoch ms. */
export function sinceMsOf(task: TaskView, nowMs: number): number | undefined {
  return task.letter?.buriedAt ?? arrivedMsOf(task, nowMs)
}

/** The state of a file in a spool, as far as it can be determined without changing anything. */
export type FileState = 'due' | 'waiting' | 'running' | 'incomplete' | 'malformed' | 'unreadable' | 'gone'

export interface Inspection {
  readonly state: FileState
  readonly bytes: number
  /** Epoch ms. */
  readonly mtimeMs: number
  /** Epoch ms; the mtime if there is no packet. */
  readonly dueAtMs: number
  /** Epoch ms: the earliest of the file's times; undefined if none is known. */
  readonly sinceMs: number | undefined
  /** modifier2 as our mark (spool/state-byte); 0 if there is no packet. */
  readonly mark: number
  readonly vars: Vars | undefined
  readonly bodyOffset: number
  /** The reason, for states that have one. */
  readonly detail?: string
  /** A regular file that could not be read, so it may or may not be a task. */
  readonly isUnread?: true
  /** The process that holds its lock. */
  readonly pid?: number
  /** When the run began, epoch ms. Known only if spoold runs it. */
  readonly startedAtMs?: number
}

const buffer = Buffer.allocUnsafeSlow(MAX_PACKET_BYTES)

/**
 * Inspects a file without locking it: even a short lock could make a uWSGI skip the file for half a minute. The lock's
 * holder is looked up in `locks`.
 */
export function inspectFile(path: string, locks: Locks, nowMs: number): Inspection {
  let fd: number
  try {
    fd = openSafely(path, constants.O_RDONLY)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return nothing('gone', messageOf(error))
    const isLink = errnoOf(error) === 'ELOOP'
    return unreadable(path, isLink ? 'it is a symbolic link, which is never run' : messageOf(error))
  }
  try {
    return inspectOpen(fd, locks, nowMs)
  } catch (error) {
    return unreadable(path, messageOf(error))
  } finally {
    closeSync(fd)
  }
}

/** Why nobody can write there, whatever the rights: the file is immutable, or the file system is read-only. */
export function unwritable(path: string): string | undefined {
  try {
    accessSync(toFsPath(path), constants.W_OK)
  } catch (error) {
    if (['EPERM', 'EROFS'].includes(errnoOf(error) ?? '')) return messageOf(error).replace(/, access .*/s, '')
  }
  return undefined
}

function nothing(state: FileState, detail: string): Inspection {
  return {
    state,
    bytes: 0,
    mtimeMs: 0,
    dueAtMs: 0,
    sinceMs: undefined,
    mark: 0,
    vars: undefined,
    bodyOffset: 0,
    detail,
  }
}

/** The facts that lstat knows about an unreadable file. */
function unreadable(path: string, detail: string): Inspection {
  const none = nothing('unreadable', detail)
  try {
    const stats = lstatSync(toFsPath(path))
    const { size: bytes, mtimeMs } = stats
    const isUnread = stats.isFile() ? { isUnread: true as const } : {}
    return { ...none, ...isUnread, bytes, mtimeMs, dueAtMs: mtimeMs, sinceMs: earliestOf(stats) }
  } catch {
    return none
  }
}

/** Ignores times of 0: file systems without a birth time report it as 0. */
function earliestOf({ birthtimeMs, mtimeMs, ctimeMs }: Stats): number | undefined {
  const known = [birthtimeMs, mtimeMs, ctimeMs].filter(ms => ms > 0)
  return known.length === 0 ? undefined : Math.min(...known)
}

function inspectOpen(fd: number, locks: Locks, nowMs: number): Inspection {
  const stats = fstatSync(fd)
  if (!stats.isFile())
    return {
      ...nothing('unreadable', 'it is not a regular file, so it is never run'),
      sinceMs: earliestOf(stats),
    }
  const { size: bytes, mtimeMs, ctimeMs, dev, ino } = stats
  const read = readSync(fd, buffer, 0, Math.min(bytes, MAX_PACKET_BYTES), 0)
  const isHeld = locks.isHeld(dev, ino)
  const pid = isHeld ? locks.pidOf(dev, ino) : undefined
  const known = { bytes, mtimeMs, sinceMs: earliestOf(stats), ...(pid === undefined ? {} : { pid }) }
  const packet = packetIn(buffer, read)
  if ('kind' in packet)
    return { ...nothing(isHeld ? 'running' : packet.kind, packet.detail), ...known, dueAtMs: mtimeMs }
  const { vars, state: mark, bodyOffset } = packet
  const dueAtMs = dueAtMsOf(mtimeMs, packet)
  const state = isHeld ? 'running' : dueAtMs > nowMs ? 'waiting' : 'due'
  // the byte is written when the run starts, and nothing else in the file changes during it
  const startedAtMs = isHeld && (mark & STARTED) !== 0 ? { startedAtMs: ctimeMs } : {}
  return { ...known, ...startedAtMs, state, dueAtMs, mark, vars, bodyOffset }
}

/** Returns a task as somebody may see it. Its body is not part of it. */
export function seenTask(task: TaskView, { mayReadPayload, hide }: Sight): TaskView {
  return mayReadPayload ? withoutHidden(task, hide) : withoutPayload(task)
}

/** Returns a dead letter as somebody may see it, where its task is not at hand. */
export function seenLetter(letter: DeadLetter, { mayReadPayload, hide }: Sight): DeadLetter {
  return mayReadPayload && !hide.isEverything ? letterWithoutHidden(letter, hide, []) : letterWithout(letter)
}

function withoutHidden(task: TaskView, hide: Hide): TaskView {
  if (!hide.isOn) return task
  if (hide.isEverything) return withKeysOnly(task, hide)
  const { file, record, letter, parked } = task
  // a value of 64 KB may contain ten thousand texts, and most tasks have no text that could quote one of them
  const hasTexts = record !== undefined || letter !== undefined || parked !== undefined
  const secrets = hasTexts && file.vars !== undefined ? hide.secretsIn(file.vars) : []
  return {
    ...task,
    file: { ...file, vars: file.vars === undefined ? undefined : hide.vars(file.vars) },
    ...(record === undefined ? {} : { record: hide.texts(record, secrets) }),
    ...(letter === undefined ? {} : { letter: letterWithoutHidden(letter, hide, secrets) }),
    ...(parked === undefined ? {} : { parked: hide.texts(parked, secrets) }), // a pause names a value
  }
}

function withKeysOnly(task: TaskView, hide: Hide): TaskView {
  const { vars } = task.file
  return {
    ...withoutPayload(task),
    file: { ...task.file, vars: vars === undefined ? undefined : hide.vars(vars) },
  }
}

/** Hides values in the texts of a letter, and in its handlers: a handler may be a command of the configuration. */
function letterWithoutHidden(letter: DeadLetter, hide: Hide, secrets: readonly string[]): DeadLetter {
  const handlers = letter.handlers.map(each => hide.configured(each))
  return { ...hide.texts(letter, secrets), handlers }
}

/** Returns a task without its keys, values and errors: errors may contain values. */
function withoutPayload({ record, letter, file, parked, ...task }: TaskView): TaskView {
  return {
    ...task,
    file: { ...file, vars: nameOnly(file.vars) },
    ...(record === undefined ? {} : { record: recordWithout(record) }),
    ...(letter === undefined ? {} : { letter: letterWithout(letter) }),
    ...(parked === undefined ? {} : { parked: parkedWithout(parked) }),
  }
}

/** Keeps only the name of a named task, which is the name of a function. */
function nameOnly(vars: Vars | undefined): Vars | undefined {
  const name = vars !== undefined && isNamed(vars) ? taskNameOf(vars) : undefined
  if (name === undefined) return undefined
  const packet = encodePacket([[Buffer.from(TASK_KEY), Buffer.from(name, 'latin1')]])
  const parsed = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  return 'fault' in parsed ? undefined : parsed
}

function recordWithout(record: NonNullable<TaskView['record']>): NonNullable<TaskView['record']> {
  const { lastError: _error, history = [], burial, ...rest } = record
  return {
    ...rest,
    history: history.map(({ at, kind }) => ({ at, kind })),
    ...(burial === undefined ? {} : { burial: { ...burial, detail: '' } }),
  }
}

function letterWithout(letter: DeadLetter): DeadLetter {
  const { lastError: _error, ...rest } = letter
  return { ...rest, detail: '', handlers: [] }
}

/** A pause names a value; the other reasons name functions. */
function parkedWithout(parked: Parked): Parked {
  return parked.reason === 'paused' ? { ...parked, detail: 'paused' } : parked
}
