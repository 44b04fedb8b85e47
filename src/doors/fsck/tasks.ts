import { counted } from '../../base/counted.js'
import { quietly } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { type Ref, toFsPath } from '../../base/task/ref.js'
import type { ClaimedTask } from '../../engines/spool/claims/claimed-task.js'
import type { Settled } from '../../engines/spool/claims/settle.js'
import { isPriorityDirectory, isTaskName, isUwsgiName, STATE_DIRECTORY } from '../../engines/spool/names.js'
import { isCounted, type TaskRecord } from '../../engines/spool/records.js'
import { setTime } from '../../engines/spool/spool-file.js'
import { type Past, pastOf, RECORDED, writeState } from '../../engines/spool/state-byte.js'
import { jsonNameOf } from '../../engines/spool/state-directory.js'
import { listEntries } from '../../system/files/entries.js'
import { type ExaminedSpool, entriesIn, type Mark, markOf, statsOf, tasksIn } from './examined-spool.js'
import { type Finding, OVER, REPAIRED, type Repair } from './finding.js'
import { whileHeld } from './hold.js'

/** Checks the state bytes of unlocked tasks. */
export async function* checkTasks(examined: ExaminedSpool): AsyncGenerator<Finding> {
  for await (const ref of tasksIn(examined)) {
    const assessment = assess(examined, ref)
    if (assessment === undefined) continue
    const isStill = () => assess(examined, ref)?.kind === assessment.kind
    yield { ...assessment, path: ref, isStill, repair: () => repairTask(examined, ref, assessment.kind) }
  }
}

type Assessment = Pick<Finding, 'kind' | 'meaning' | 'fix' | 'isNote'>

const AS_NEXT_CLAIM = '--repair does what the next claim would do'

function assess(examined: ExaminedSpool, ref: Ref): Assessment | undefined {
  const mark = markOf(examined, ref)
  if (mark === undefined || mark.state === 0 || mark.isHeld) return undefined
  const record = quietly(() => examined.records.of(ref, mark.state, mark.mtimeMs))
  const past = pastOf(mark.state)
  if (past === 'done')
    return {
      kind: 'done-left',
      meaning: 'it ran to SPOOL_OK, but could not be removed; it will not run again',
      fix: `remove it: ${AS_NEXT_CLAIM}`,
    }
  if (record?.burial !== undefined || past === 'to-bury')
    return {
      kind: 'burial-open',
      meaning: `it should be buried, but could not be: ${record?.burial?.detail ?? 'the reason could not be recorded'}`,
      fix: `bury it: ${AS_NEXT_CLAIM}`,
    }
  if ((past === 'died-alone' || past === 'died-once') && !isCounted(record, mark.mtimeMs))
    return openRun(examined, mark, past)
  if ((mark.state & RECORDED) !== 0 && !hasRecord(examined, ref))
    return {
      kind: 'mark-unrecorded',
      meaning: 'it is marked as recorded, but there is no record: its attempts count from 1 again',
      fix: '--repair clears the mark',
      isNote: true,
    }
  return undefined
}

/**
 * Returns the finding for a run that did not end. A task that is not due yet will still be claimed, and a running daemon knows
 * better which task is to blame.
 */
function openRun({ isInUse }: ExaminedSpool, { mtimeMs }: Mark, past: Past): Assessment | undefined {
  if (isInUse || mtimeMs > Date.now()) return undefined
  return {
    kind: 'run-open',
    meaning:
      past === 'died-once'
        ? 'a run started and did not end; it is delivered at most once, so the next claim buries it, because its outcome is unknown'
        : 'a run started and did not end: its process died, and the next claim counts a crash',
    fix: AS_NEXT_CLAIM,
  }
}

function repairTask(examined: ExaminedSpool, ref: Ref, kind: Finding['kind']): Promise<Repair> {
  if (kind === 'mark-unrecorded') return whileHeld(examined, ref, {}, task => clearMark(examined, task))
  return whileHeld(examined, ref, { isDue: true }, task => {
    const settled = examined.settler.past(task)
    return settled === undefined ? OVER : repairOf(settled)
  })
}

function repairOf({ kind, detail, atMs = 0 }: Settled): Repair {
  switch (kind) {
    case 'later':
      return {
        kind: 'repaired',
        detail: `a crash was counted; it may run from ${new Date(atMs).toISOString()} on`,
      }
    case 'buried':
      return { kind: 'repaired', detail: `it is buried: ${detail}` }
    case 'gone':
      return { kind: 'repaired', detail: 'it is removed' }
    default:
      return { kind: 'left', detail: detail ?? kind }
  }
}

function clearMark(examined: ExaminedSpool, { file, mtimeMs }: ClaimedTask): Repair {
  const { ref, fd, state } = file
  if ((state & RECORDED) === 0 || hasRecord(examined, ref)) return OVER
  writeState(fd, state & ~RECORDED)
  setTime(fd, mtimeMs) // the write has changed the time
  return REPAIRED
}

/** Returns the path of a task's record, relative to the spool. */
function recordPath(ref: Ref): string {
  return `${STATE_DIRECTORY}/records/${jsonNameOf(ref)}`
}

/** True if there is a record, even behind a link, through which whoever runs the task reads it. */
function hasRecord(examined: ExaminedSpool, ref: Ref): boolean {
  return statsOf(examined, recordPath(ref)) !== undefined || quietRecord(examined, ref) !== undefined
}

/** Returns a task's record; undefined if it cannot be read, which is another finding. */
export function quietRecord({ records }: ExaminedSpool, ref: Ref): TaskRecord | undefined {
  try {
    return records.read(ref)
  } catch {
    return undefined
  }
}

/** Finds tasks in directories that are not scanned. Without a configuration, this is known only for some directories. */
export async function* checkVisits(examined: ExaminedSpool): AsyncGenerator<Finding> {
  const isOrdered = examined.rules?.ordered
  for await (const entry of listEntries(examined.spool)) {
    if (!entry.isDirectory() || entry.name === STATE_DIRECTORY) continue
    const isPriority = isPriorityDirectory(entry.name)
    if (isPriority && isOrdered === true) continue
    const tasks = await countTasks(examined, entry.name, isPriority)
    if (tasks === 0) continue
    yield {
      kind: 'unvisited',
      path: entry.name,
      meaning: `${counted(tasks, 'task')} in a directory that ${isPriority ? 'is only scanned with spooler-ordered' : 'is never scanned: its name is not a number'}`,
      fix: isPriority ? 'set spooler-ordered = true' : moveUp(examined, entry.name),
      ...(isPriority && isOrdered === undefined ? { isNote: true } : {}),
    }
  }
}

/** Counts the tasks in a directory. Unless it is a priority, only files that uWSGI would have put there count. */
async function countTasks(examined: ExaminedSpool, directory: string, isPriority: boolean): Promise<number> {
  const rules = { ordered: true, strictNames: false }
  let tasks = 0
  for await (const { name } of entriesIn(examined, directory))
    if (isPriority ? isTaskName(name, rules) : isUwsgiName(name, { ...rules, ordered: false })) tasks++
  return tasks
}

function moveUp({ spool }: ExaminedSpool, directory: string): string {
  const from = shellWord(toFsPath(`${spool}/${directory}`))
  return `mv -n ${from}/uwsgi_spoolfile_on_* ${shellWord(toFsPath(spool))}/`
}
