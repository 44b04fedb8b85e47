import { realpathSync } from 'node:fs'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { printable } from '../../base/printable.js'
import { readLocks } from '../../files/lock-table.js'
import { byAge } from '../../spool/admin/run-order.js'
import { arrivedMsOf, SpoolView, sinceMsOf, type TaskView } from '../../spool/admin/task-view.js'
import { deadNameOf } from '../../spool/dead-letters.js'
import { maySeePauses, readPauses } from '../../spool/pauses.js'
import { compareVersions } from '../../spool/version-order.js'
import { describePauses, lastingPauses } from '../../task/pause.js'
import { priorityOf, type Ref, toByteString } from '../../task/ref.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import type { Output } from '../output.js'
import { isoTime, jsonBytes, shortDuration, terminalName, textTable } from '../render.js'
import { type Selection, type SelectionOptions, selectionOf } from '../selection.js'

interface LsOptions extends SelectionOptions {
  readonly json?: boolean
  /** Sort as uWSGI's spooler-ordered does. */
  readonly byName?: boolean
}

/**
 * `spoold ls DIR…`: prints the tasks of spools in the order in which they will run, then the dead letters.
 *
 * @returns 1 if a part of a spool could not be listed, or if a file could not be read for a filter
 */
export async function ls(
  directories: readonly string[],
  options: LsOptions,
  { output, ownProcess }: CommandContext,
): Promise<number> {
  output.purpose = 'look'
  const selection = selectionOf(options)
  return asOwners(ownProcess, directories, mine => list(mine, selection, options, output))
}

async function list(
  directories: readonly string[],
  selection: Selection,
  options: LsOptions,
  output: Output,
): Promise<number> {
  const locks = readLocks()
  const nowMs = Date.now()
  let exitCode = 0
  for (const [i, directory] of directories.entries()) {
    const spool = realPath(directory)
    const view = new SpoolView(spool, locks, nowMs)
    const { living, dead, isWhole } = await listRefs(directory, view, selection, output)
    if (!isWhole) exitCode = 1
    const lookAt = (refs: readonly Ref[]) => look(view, refs, selection, unread)
    const unread = ({ ref, file }: TaskView) => {
      exitCode = 1
      output.complain(
        `${directory}/${terminalName(Buffer.from(ref, 'latin1'))} cannot be read: ${file.detail}`,
      )
    }
    const found = options.byName
      ? lookAt(living.sort(compareVersions))
      : waitingLast(lookAt(await byAge(spool, living)), view)
    tellPauses(directory, spool, nowMs, output)
    const tasks = inTurn(found, lookAt(dead.sort(compareVersions)))
    if (!options.json && directories.length > 1) output.line(`${i === 0 ? '' : '\n'}${directory}:`)
    for (const line of options.json ? asJsonLines(directory, tasks, nowMs) : asTable(tasks, nowMs))
      output.line(line)
  }
  return exitCode
}

/** Not in the table: what is paused also concerns tasks that are not there yet. */
function tellPauses(directory: string, spool: string, nowMs: number, output: Output): void {
  const { pauses, ...fault } = readPauses(spool)
  const now = { pauses: lastingPauses(pauses, nowMs), ...fault }
  if (now.pauses.length > 0 || (now.fault !== undefined && maySeePauses(spool)))
    output.complain(`${directory}: paused: ${describePauses(now)}`)
}

/** Reads a task only when its line is about to be printed. */
function* look(
  view: SpoolView,
  refs: readonly Ref[],
  { has, needsPackets }: Selection,
  unread: (task: TaskView) => void,
): Generator<TaskView> {
  for (const ref of refs) {
    const task = view.view(ref)
    if (task === undefined) continue
    if (has(task)) yield task
    else if (needsPackets && task.file.isUnread === true) unread(task)
  }
}

/** Due tasks first, then waiting ones by time. Those are read again: a million views would take a gigabyte. */
function* waitingLast(tasks: Iterable<TaskView>, view: SpoolView): Generator<TaskView> {
  const waiting: Array<Pick<TaskView, 'ref' | 'dueAtMs'>> = []
  for (const task of tasks) {
    const { ref, state, dueAtMs } = task
    if (state === 'waiting' || state === 'retrying') waiting.push({ ref, dueAtMs })
    else yield task
  }
  for (const { ref } of waiting.sort((a, b) => a.dueAtMs - b.dueAtMs)) {
    const task = view.view(ref)
    if (task !== undefined) yield task
  }
}

function* inTurn<T>(...parts: Iterable<T>[]): Generator<T> {
  for (const part of parts) yield* part
}

/** The contents of a spool, as far as this user may see them. */
interface Listing {
  readonly living: Ref[]
  readonly dead: Ref[]
  readonly isWhole: boolean
}

async function listRefs(
  directory: string,
  view: SpoolView,
  { states, mayHave }: Selection,
  output: Output,
): Promise<Listing> {
  let [living, isWhole]: [Ref[], boolean] = [[], true]
  const failed = (prefix: string, error: unknown) => {
    isWhole = false
    output.complain(
      `${directory}/${terminalName(Buffer.from(prefix, 'latin1'))} cannot be listed: ${messageOf(error)}`,
    )
  }
  const dead: Ref[] = []
  try {
    if (states === undefined || states.some(state => state !== 'dead')) living = await view.refs(failed)
  } catch (error) {
    throw unlisted(directory, error)
  }
  try {
    if (states === undefined || states.includes('dead')) for await (const ref of view.dead()) dead.push(ref)
  } catch (error) {
    failed('.spoold/dead', error) // only the spool's user may read it
  }
  return { living: living.filter(mayHave), dead: dead.filter(mayHave), isWhole }
}

function realPath(directory: string): string {
  try {
    return toByteString(realpathSync(directory))
  } catch (error) {
    throw unlisted(directory, error)
  }
}

function unlisted(directory: string, error: unknown): SpooldError {
  return new SpooldError('SPOOL_UNUSABLE', whyUnlisted(directory, error), { cause: error })
}

function whyUnlisted(directory: string, error: unknown): string {
  switch (errnoOf(error)) {
    case 'ENOENT':
      return `${directory} does not exist; name a spool directory`
    case 'ENOTDIR':
      return `${directory} is not a directory; name a spool directory, or use spoold show for a file`
    default:
      return `${directory} cannot be listed by uid ${process.geteuid?.()}: ${messageOf(error)}`
  }
}

const COLUMNS = ['STATE', 'PRIORITY', 'DUE IN', 'AGE', 'BYTES', 'FAILED', 'NAME', 'NOTE']

function asTable(tasks: Iterable<TaskView>, nowMs: number): Generator<string> {
  return textTable(COLUMNS, cellsOf(tasks, nowMs), COLUMNS.slice(1, -2))
}

function* cellsOf(tasks: Iterable<TaskView>, nowMs: number): Generator<string[]> {
  for (const task of tasks) {
    const { ref, state, dueAtMs, file, record, letter } = task
    const waits = state === 'waiting' || state === 'retrying'
    const dueIn = waits ? shortDuration(dueAtMs - nowMs) : state === 'due' ? 'now' : ''
    const failed = (letter ?? record)?.attempts ?? 0
    yield [
      state,
      priorityCell(deadNameOf(ref) ?? ref),
      dueIn,
      ageOf(task, nowMs),
      String(file.bytes),
      failed === 0 ? '' : String(failed),
      terminalName(Buffer.from(ref, 'latin1')),
      noteOf(task, nowMs),
    ]
  }
}

/** The name of its directory: `05` is not `5`. */
function priorityCell(ref: Ref): string {
  return priorityOf(ref) === null ? '' : ref.slice(0, ref.indexOf('/'))
}

function ageOf(task: TaskView, nowMs: number): string {
  const sinceMs = sinceMsOf(task, nowMs)
  return sinceMs === undefined ? '' : shortDuration(nowMs - sinceMs)
}

const MAX_NOTE_CHARS = 80

/** The most important fact about a task. */
function noteOf({ state, file, record, letter }: TaskView, nowMs: number): string {
  if (state === 'running') {
    const { pid, startedAtMs } = file
    const since = startedAtMs === undefined ? '' : `for ${shortDuration(nowMs - startedAtMs)}`
    return [pid === undefined ? '' : `pid ${pid}`, since].filter(part => part !== '').join(', ')
  }
  const moved = record?.movedTo === undefined ? '' : `a move to ${record.movedTo} did not end`
  const why =
    letter === undefined
      ? moved || record?.lastError
      : `${letter.reason}: ${letter.lastError ?? letter.detail}`
  const [line = ''] = (why ?? file.detail ?? '').split('\n', 1)
  return printable(line.length > MAX_NOTE_CHARS ? `${line.slice(0, MAX_NOTE_CHARS)}…` : line)
}

function* asJsonLines(spooler: string, tasks: Iterable<TaskView>, nowMs: number): Generator<string> {
  for (const task of tasks) yield JSON.stringify(asJson(spooler, task, nowMs))
}

function asJson(spooler: string, task: TaskView, nowMs: number) {
  const { ref, state, dueAtMs, file, record, letter } = task
  const { attempts, crashes, lastError } = letter ?? record ?? {}
  const { pid, startedAtMs } = file
  const arrivedMs = arrivedMsOf(task, nowMs)
  return {
    state,
    spooler,
    name: jsonBytes(Buffer.from(ref, 'latin1')),
    priority: priorityOf(deadNameOf(ref) ?? ref),
    ...(letter === undefined
      ? { due: isoTime(dueAtMs) }
      : { buried: isoTime(letter.buriedAt), reason: letter.reason }),
    ...(arrivedMs === undefined ? {} : { arrived: isoTime(arrivedMs) }),
    mtime: isoTime(file.mtimeMs),
    bytes: file.bytes,
    ...(file.detail === undefined ? {} : { detail: file.detail }),
    ...(attempts === undefined ? {} : { attempts, crashes }),
    ...(lastError === undefined ? {} : { lastError }),
    ...(pid === undefined ? {} : { pid }),
    ...(startedAtMs === undefined ? {} : { started: isoTime(startedAtMs) }),
  }
}
