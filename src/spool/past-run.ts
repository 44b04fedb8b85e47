import type { LastRun } from '../task/last-run.js'
import type { FileClaim } from './claim.js'
import type { Failures } from './failures.js'
import type { TaskRecord } from './records.js'
import { removeTask, type Settled } from './settle.js'
import { DONE, ONCE, STARTED, SUSPECT } from './state-byte.js'

/**
 * Settles what the last run of a file left open: it was done and only has to be removed, it was to be buried, or its
 * runner died, whoever that was. The caller holds the file.
 *
 * @returns undefined when nothing was
 */
export function settlePastRun(
  file: FileClaim,
  record: TaskRecord | undefined,
  failures: Failures,
  lastRun?: LastRun,
): Settled | undefined {
  const { state, inode } = file
  if ((state & DONE) !== 0 && record?.doneInode === inode) return removeDone(file, failures)
  if (record?.burial !== undefined)
    return failures.bury(file, record, record.burial.reason, record.burial.detail)
  if ((state & STARTED) === 0) return undefined
  const cause = lastRun?.kind === 'crash' ? lastRun.cause : 'its process died'
  if ((state & ONCE) !== 0) {
    const detail = `${cause}; it may have done its work, and is delivered at most once`
    return failures.bury(file, record, 'outcome-unknown', detail)
  }
  if (lastRun?.kind === 'blameless') return undefined
  const crashes = (state & SUSPECT) === 0 ? 1 : 2
  return failures.settle(file, record, { kind: 'crash', crashes, error: cause })
}

function removeDone(file: FileClaim, failures: Failures): Settled {
  const settled = removeTask(file, Number.POSITIVE_INFINITY)
  if (settled.kind !== 'ok') return { ...settled, kind: 'unreadable' } // it did not run: told once, as all that is left alone
  failures.forget(file.ref)
  return { kind: 'gone' }
}
