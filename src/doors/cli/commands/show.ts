import { isUtf8 } from 'node:buffer'
import { counted, times } from '../../../base/counted.js'
import { doEach } from '../../../base/each.js'
import { SpooldError } from '../../../base/errors.js'
import { cutPrintable, printable } from '../../../base/printable.js'
import { displayName } from '../../../base/task/ref.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { arrivedMsOf, seenTask, type TaskView } from '../../../engines/spool/admin/task-view.js'
import { EAGER_BODY_BYTES } from '../../../engines/spool/spool-file.js'
import type { TaskStore } from '../../../engines/task-store.js'
import type { Hide } from '../../../formats/protocol/hide.js'
import { ownersSight } from '../../../formats/protocol/sight.js'
import { toPairs } from '../../../formats/protocol/vars.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { commandExitCode } from '../exit-code.js'
import { hideOf } from '../hiding.js'
import { namedTaskOf } from '../named-rows.js'
import type { Output } from '../output.js'
import { distinct, type IniOptions, type NamedTask, tasksOf } from '../places.js'
import { isoTime, jsonBytes } from '../render.js'

interface ShowOptions extends IniOptions {
  readonly json?: boolean
}

/** The maximum length of a value on a terminal. */
const MAX_SHOWN_CHARS = 200

/**
 * `spoold show FILE…`: prints the decoded packet and the task's history. Text is shown as text, other bytes as base64.
 *
 * @returns 1 if one of several tasks could not be shown
 */
export async function show(
  words: readonly string[],
  options: ShowOptions,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess } = context
  output.purpose = 'look'
  if (words.length === 0) throw new SpooldError('USAGE', 'name a task: its file, or its name and --ini FILE')
  let exitCode = 0
  const fault = (error: SpooldError) => {
    output.complain(`[${error.code}] ${error.message}`)
    exitCode = Math.max(exitCode, commandExitCode(error))
  }
  const found = await tasksOf(words, { ...options, asksDaemons: true }, context, fault)
  const named = found.filter(each => each.how !== 'gone')
  if (ownProcess.part === undefined)
    for (const each of found)
      if (each.how === 'gone')
        fault(new SpooldError('FILE_UNREADABLE', `${each.word} does not exist: done or unknown`))
  const places = distinct(named.map(({ place }) => place))
  const finder = process.geteuid?.()
  const hides = new Map<string, Hide>()
  const code = await asOwners(ownProcess, places, async mine => {
    const spools = mine.map(({ spool }) => spool)
    await doEach(
      named.filter(({ place }) => spools.includes(place.spool)),
      async task => {
        try {
          const now = process.geteuid?.() === finder ? task : await again(task)
          const { spool, shown } = now.place
          const hide = hides.get(spool) ?? (await hideOf(now.store, shown, output))
          hides.set(spool, hide)
          await showOne(now, hide, options, output)
        } catch (error) {
          if (!(error instanceof SpooldError) || error.code === 'OUTPUT_FAILED') throw error
          fault(error)
        }
      },
    )
    return exitCode
  })
  return Math.max(code, exitCode)
}

/** Looks up again, as the owner of its spool, a task that root has found. @throws SpooldError FILE_UNREADABLE if it is gone */
async function again(named: NamedTask): Promise<NamedTask> {
  const store = await openTaskStore(named.place.spool, { asksDaemons: true })
  const task = await store.view(named.task.ref)
  if (task === undefined)
    throw new SpooldError('FILE_UNREADABLE', `${named.word} does not exist: done or unknown`)
  return { ...named, store, task }
}

async function showOne(
  { store, place, task: found }: NamedTask,
  hide: Hide,
  { json }: ShowOptions,
  output: Output,
): Promise<void> {
  const file = `${place.shown}/${displayName(found.ref)}`
  const task = seenTask(found, ownersSight(hide))
  const { state, detail, vars } = task.file
  if (state === 'unreadable') throw new SpooldError('FILE_UNREADABLE', `${file} cannot be read: ${detail}`)
  // a dead letter is worth showing even without a packet
  if (vars === undefined && task.letter === undefined)
    throw new SpooldError('PACKET_MALFORMED', `${file} is not a spool packet (${state}): ${detail}`)
  const body = await smallBody(store, found)
  const shownTask = { file, task, body: body === undefined ? undefined : hide.body(body) }
  if (json) output.json(asJson(shownTask), 2)
  else output.lines(linesOf(shownTask))
}

/** Returns the body of a task; undefined if there is none, or if it is too large to be shown. */
export async function smallBody(store: TaskStore, task: TaskView): Promise<Buffer | undefined> {
  const bytes = task.file.bytes - task.file.bodyOffset
  const isShown = task.file.vars !== undefined && bytes > 0 && bytes <= EAGER_BODY_BYTES
  return isShown ? await store.body(task) : undefined
}

/** A task without what is hidden. */
interface ShownTask {
  /** The path of the task, below the spool as it was named. */
  readonly file: string
  readonly task: TaskView
  /** undefined if there is none, or if it is too large to be shown. */
  readonly body: Buffer | undefined
}

/** Returns everything about a task, in lines for people. */
export function linesOf({ file, task, body }: ShownTask): string[] {
  const { bytes, bodyOffset, vars, detail } = task.file
  const lines = [`${printable(file)}: ${headline(task)}${arrival(task)}, ${counted(bytes, 'byte')}`]
  if (vars === undefined) lines.push(`  no packet: ${detail}`)
  else {
    for (const [key, value] of toPairs(vars)) lines.push(`  ${shown(key)} = ${shown(value)}`)
    const bodyBytes = bytes - bodyOffset
    if (bodyBytes > EAGER_BODY_BYTES) lines.push(`  body: ${bodyBytes} bytes, from byte ${bodyOffset}`)
    else if (body !== undefined) lines.push(`  body: ${cut(body)} (${counted(bodyBytes, 'byte')})`)
    if (detail !== undefined) lines.push(`  not settled: ${detail}`)
  }
  return [...lines, ...failureLines(task)]
}

function arrival(task: TaskView): string {
  const arrivedMs = arrivedMsOf(task, Date.now())
  return arrivedMs === undefined ? '' : `, arrived ${isoTime(arrivedMs)}`
}

function headline({ state, dueAtMs, file, letter, parked }: TaskView): string {
  if (letter !== undefined) return `dead since ${isoTime(letter.buriedAt)} (${letter.reason})`
  const { pid, startedAtMs } = file
  const by = pid === undefined ? '' : ` by process ${pid}`
  const since = startedAtMs === undefined ? '' : ` since ${isoTime(startedAtMs)}`
  const why = parked === undefined ? '' : ` (${printable(parked.detail)})`
  return `${state}${why}${by}${since}, due ${isoTime(dueAtMs)}`
}

/** Returns the lines that say why the task is dead, and how it failed before. */
function failureLines({ record, letter }: TaskView): string[] {
  const lines: string[] = []
  const failures = letter ?? record
  if (letter !== undefined) {
    const handlers = letter.handlers.length === 0 ? 'no handler' : letter.handlers.join(', ')
    lines.push(`  why: ${letter.detail}`)
    if (letter.host !== '') lines.push(`  where: on ${letter.host}, by ${handlers}`)
  }
  if (record?.movedTo !== undefined) lines.push(`  a move to ${record.movedTo} did not end: it may run there`)
  if (failures !== undefined && failures.attempts > 0) {
    const { attempts, crashes, firstFailureAt, lastFailureAt } = failures
    lines.push(`  failed: ${times(attempts)}, ${crashes} of them by a crash`)
    if (firstFailureAt !== undefined && lastFailureAt !== undefined)
      lines.push(`  first: ${isoTime(firstFailureAt)}, last: ${isoTime(lastFailureAt)}`)
  }
  for (const { at, kind, error = '' } of record?.history ?? [])
    lines.push(`    ${isoTime(at)} ${kind}${error === '' ? '' : `: ${error}`}`)
  if (failures?.lastError !== undefined) lines.push('  the last error:', ...indented(failures.lastError))
  return lines.map(printable)
}

function indented(text: string): string[] {
  return text.split('\n').map(line => `    ${line}`)
}

function asJson({ file, task, body }: ShownTask) {
  const { state, dueAtMs, file: found, record, letter, parked } = task
  const arrivedMs = arrivedMsOf(task, Date.now())
  const { mtimeMs, bytes, mark, vars, bodyOffset, pid, startedAtMs, detail } = found
  const bodyBytes = bytes - bodyOffset
  const namedTask = namedTaskOf(task, vars, () => body)
  return {
    file,
    state,
    ...(parked === undefined ? {} : { parked }),
    ...(letter === undefined ? { due: isoTime(dueAtMs) } : {}),
    ...(arrivedMs === undefined ? {} : { arrived: isoTime(arrivedMs) }),
    mtime: isoTime(mtimeMs),
    bytes,
    ...(pid === undefined ? {} : { pid }),
    ...(startedAtMs === undefined ? {} : { started: isoTime(startedAtMs) }),
    mark,
    ...(detail === undefined ? {} : { detail }),
    // an array of pairs: a packet may contain a key twice, and arbitrary keys
    ...(vars === undefined
      ? {}
      : { vars: toPairs(vars).map(([key, value]) => [jsonBytes(key), jsonBytes(value)]) }),
    ...(namedTask === undefined ? {} : { task: namedTask }),
    bodyBytes,
    bodyOffset,
    ...(body === undefined ? {} : { body: jsonBytes(body) }),
    ...(record === undefined ? {} : { record }),
    ...(letter === undefined
      ? {}
      : { deadLetter: { ...letter, ref: jsonBytes(Buffer.from(letter.ref, 'latin1')) } }),
  }
}

function shown(bytes: Buffer): string {
  const text = cut(bytes)
  return text.endsWith('…') ? `${text} (${bytes.length} bytes)` : text
}

function cut(bytes: Buffer): string {
  const text = isUtf8(bytes)
    ? printable(JSON.stringify(bytes.toString('utf8')))
    : `base64 ${bytes.toString('base64')}`
  return cutPrintable(text, MAX_SHOWN_CHARS)
}
