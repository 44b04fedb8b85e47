import { fdatasyncSync, fstatSync, fsyncSync } from 'node:fs'
import type { Company } from '../../../base/task/outcome.js'
import { isCounted, type TaskRecord } from '../records.js'
import { setTime } from '../spool-file.js'
import { BESIDE, lasting, ONCE, STARTED, writeState } from '../state-byte.js'
import type { ClaimedFile } from './claim.js'

interface Beginning {
  readonly file: ClaimedFile
  readonly record: TaskRecord | undefined
  readonly isOnce: boolean
}

/**
 * Marks in the file that a run starts.
 *
 * @throws if it cannot be written; the run must not start then
 */
export function markBegun(claim: Beginning, company: Company): void {
  if (claim.isOnce) return markOnce(claim)
  const { fd, state } = claim.file
  writeState(fd, STARTED | (company === 'beside' ? BESIDE : 0) | lasting(state))
  tellApart(claim)
}

/** A power failure must not lose the mark; and a run that did not start must not be marked. */
function markOnce(claim: Beginning): void {
  const { fd, state } = claim.file
  writeState(fd, STARTED | ONCE | lasting(state))
  try {
    if (!tellApart(claim)) throw new Error('its times are too coarse to tell this run from the last one')
    if (claim.record === undefined) fdatasyncSync(fd)
    else fsyncSync(fd) // a data sync may leave the mtime of the last run, which is counted
  } catch (error) {
    writeState(fd, state)
    throw error
  }
}

/** FAT's times are even seconds; those of most are a tick of the kernel's clock. */
const COARSEST_MTIME_MS = 2000

/** A run is identified by the mtime that its mark gave the file, which must differ from that of the last counted run. */
function tellApart({ file: { fd }, record }: Beginning): boolean {
  if (record?.countedRun === undefined || !isCounted(record, fstatSync(fd).mtimeMs)) return true
  const mtimeMs = record.countedRun - COARSEST_MTIME_MS
  return setTime(fd, mtimeMs)
}
