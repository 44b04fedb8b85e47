import type { LastRun } from '../../../base/task/last-run.js'
import { isCounted, type TaskRecord } from '../records.js'
import { type Past, pastOf } from '../state-byte.js'
import type { ClaimedFile } from './claim.js'
import type { FailedRun, Failures } from './failures.js'
import { leaveAsFound, removeTask, type Settled } from './settle.js'

/**
 * Settles what the last run of a file left: the file only has to be removed, has to be buried, or its runner died. The
 * caller holds the file locked.
 *
 * @returns undefined if nothing was left
 */
export function settlePastRun(
  file: ClaimedFile,
  record: TaskRecord | undefined,
  failures: Failures,
  lastRun?: LastRun,
): Settled | undefined {
  const past = pastOf(file.state)
  if (past === 'done' || (past === 'done-if-recorded' && record?.doneInode === file.inode))
    return removeDone(file, failures)
  if (record?.burial !== undefined)
    return failures.bury(file, record, record.burial.reason, record.burial.detail)
  if (hasBegun(past) && record !== undefined && isCounted(record, file.mtimeMs))
    return failures.endCounted(file, record)
  if (hasBegun(past) && lastRun?.kind === 'cancelled')
    return failures.bury(file, record, 'cancelled', lastRun.detail)
  switch (past) {
    case 'to-bury':
      return failures.bury(
        file,
        record,
        'unknown',
        'it was to be buried, and the reason could not be recorded',
      )
    case 'died-once': {
      const detail = `${causeOf(lastRun)}; it may have done its work, and is delivered at most once`
      return failures.bury(file, record, 'outcome-unknown', detail)
    }
    case 'died-alone':
    case 'died-beside':
      if (lastRun?.kind === 'blameless') leaveAsFound(file) // the current claim may still be released
      if (lastRun?.kind === 'blameless' || past === 'died-beside') return undefined
      return failures.settle(file, record, failureOf(file, lastRun))
    default:
      return undefined
  }
}

function hasBegun(past: Past): boolean {
  return past === 'died-alone' || past === 'died-beside' || past === 'died-once'
}

/** A run that ended but could not be counted left a future mtime; a run that died did not. */
function failureOf({ isPostponed }: ClaimedFile, lastRun: LastRun | undefined): FailedRun {
  if (!isPostponed) return { kind: 'crash', isPast: true, error: causeOf(lastRun) }
  return {
    kind: 'error',
    isPast: true,
    error: 'its run failed; the reason could not be recorded at the time',
  }
}

function causeOf(lastRun: LastRun | undefined): string {
  return lastRun?.kind === 'crash' ? lastRun.cause : 'its process died'
}

function removeDone(file: ClaimedFile, failures: Failures): Settled {
  const fault = removeTask(file, Number.POSITIVE_INFINITY)
  // it did not run: logged once, like every file that is left alone
  if (fault !== undefined)
    return { kind: 'unreadable', detail: `has finished, but its file cannot be removed: ${fault}` }
  failures.forget(file.ref)
  return { kind: 'gone' }
}
