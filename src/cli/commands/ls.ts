import { realpathSync } from 'node:fs'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { printable } from '../../base/printable.js'
import { deadNameOf } from '../../spool/dead-letters.js'
import { readLocks } from '../../spool/held-locks.js'
import { SpoolView, sinceMsOf, type TaskView } from '../../spool/task-view.js'
import { compareVersions } from '../../spool/version-order.js'
import { displayName, priorityOf, type Ref, toByteString } from '../../task/ref.js'
import { isoTime, jsonBytes, terminalName } from '../bytes.js'
import { output } from '../output.js'
import { type Selection, type SelectionOptions, selectionOf } from '../selection.js'
import { shortDuration, textTable } from '../text-table.js'

export interface LsOptions extends SelectionOptions {
  readonly json?: boolean
}

/** `spoold ls DIR…`: the tasks of the spools, in the order in which they would run, and then the dead letters. */
export async function ls(directories: readonly string[], options: LsOptions): Promise<number> {
  output.purpose = 'look'
  const selection = selectionOf(options)
  const locks = readLocks()
  const nowMs = Date.now()
  for (const [i, directory] of directories.entries()) {
    const view = new SpoolView(realPath(directory), locks, nowMs)
    const tasks = look(view, await listRefs(directory, view, selection), selection)
    if (!options.json && directories.length > 1) output.line(`${i === 0 ? '' : '\n'}${directory}:`)
    for (const line of options.json ? asJsonLines(directory, tasks) : asTable(tasks, nowMs)) output.line(line)
  }
  return 0
}

/** A task is looked at when its line is about to be printed. */
function* look(view: SpoolView, refs: readonly Ref[], selection: Selection): Generator<TaskView> {
  for (const ref of refs) {
    const task = view.view(ref)
    if (task !== undefined && selection.has(task)) yield task
  }
}

async function listRefs(directory: string, view: SpoolView, { states, mayHave }: Selection): Promise<Ref[]> {
  let living: Ref[] = []
  const dead: Ref[] = []
  try {
    if (states === undefined || states.some(state => state !== 'dead'))
      living = await livingRefs(directory, view)
    if (states === undefined || states.includes('dead')) for await (const ref of view.dead()) dead.push(ref)
  } catch (error) {
    throw unlisted(directory, error)
  }
  return [...living.filter(mayHave).sort(compareVersions), ...dead.filter(mayHave).sort(compareVersions)]
}

function livingRefs(directory: string, view: SpoolView): Promise<Ref[]> {
  return view.refs((prefix, error) =>
    output.complain(`${directory}/${displayName(prefix)} cannot be listed: ${messageOf(error)}`),
  )
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
      return `${directory} is no directory; name a spool directory, or use spoold show for a file`
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
      String(priorityOf(deadNameOf(ref) ?? ref) ?? ''),
      dueIn,
      shortDuration(nowMs - sinceMsOf(task)),
      String(file.bytes),
      failed === 0 ? '' : String(failed),
      terminalName(Buffer.from(ref, 'latin1')),
      noteOf(task, nowMs),
    ]
  }
}

const MAX_NOTE_CHARS = 80

/** What is most worth knowing. */
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

function* asJsonLines(spooler: string, tasks: Iterable<TaskView>): Generator<string> {
  for (const task of tasks) yield JSON.stringify(asJson(spooler, task))
}

function asJson(spooler: string, task: TaskView) {
  const { ref, state, dueAtMs, file, record, letter } = task
  const { attempts, crashes, lastError } = letter ?? record ?? {}
  const { pid, startedAtMs } = file
  return {
    state,
    spooler,
    name: jsonBytes(Buffer.from(ref, 'latin1')),
    priority: priorityOf(deadNameOf(ref) ?? ref),
    ...(letter === undefined
      ? { due: isoTime(dueAtMs) }
      : { buried: isoTime(letter.buriedAt), reason: letter.reason }),
    mtime: isoTime(file.mtimeMs),
    bytes: file.bytes,
    ...(file.detail === undefined ? {} : { detail: file.detail }),
    ...(attempts === undefined ? {} : { attempts, crashes }),
    ...(lastError === undefined ? {} : { lastError }),
    ...(pid === undefined ? {} : { pid }),
    ...(startedAtMs === undefined ? {} : { started: isoTime(startedAtMs) }),
  }
}
