import { errnoOf } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { describePauses } from '../../base/task/pause.js'
import { type Ref, toFsPath } from '../../base/task/ref.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { pausesPath, readPauses, shownPauses } from '../../engines/spool/pauses.js'
import { readPeriodic } from '../../engines/spool/periodic-states.js'
import { isRecord, type TaskRecord } from '../../engines/spool/records.js'
import { setTime } from '../../engines/spool/spool-file.js'
import { RECORDED, writeState } from '../../engines/spool/state-byte.js'
import { jsonNameOf } from '../../engines/spool/state-directory.js'
import { lstatSync, readFileSync } from '../../system/files/anchored-path.js'
import {
  type ExaminedSpool,
  filesIn,
  isOurDirectory,
  markOf,
  removeFile,
  statsOf,
  toBeRemoved,
} from './examined-spool.js'
import { type Finding, OVER, REPAIRED, type Repair } from './finding.js'
import { whileHeld } from './hold.js'

const ROOM = `${STATE_DIRECTORY}/records`

/** Compares each record with its task. */
export async function* checkRecords(examined: ExaminedSpool): AsyncGenerator<Finding> {
  for await (const name of filesIn(examined, 'records')) {
    if (!name.endsWith('.json')) continue
    const assessment = assess(examined, name)
    if (assessment === undefined) continue
    const { ref, ...finding } = assessment
    yield {
      ...finding,
      path: `${ROOM}/${name}`,
      fix: 'remove it: --repair does',
      isStill: () => assess(examined, name)?.kind === assessment.kind,
      repair: () => removeRecord(examined, name, ref, assessment.kind),
    }
  }
}

interface Assessment extends Pick<Finding, 'kind' | 'meaning'> {
  readonly ref: Ref
}

function assess(examined: ExaminedSpool, name: string): Assessment | undefined {
  const record = readRecord(examined, name)
  if (record === 'closed' || record === 'gone') return undefined
  const ref = record?.ref ?? name.slice(0, -'.json'.length)
  if (record === undefined || jsonNameOf(ref) !== name)
    return {
      ref,
      kind: 'record-broken',
      meaning: 'it cannot be read as a record, so its task counts from 1 again',
    }
  if (statsOf(examined, ref) === undefined)
    return {
      ref,
      kind: 'record-orphan',
      meaning: 'its task is gone; a new task of that name would not match it',
    }
  const mark = markOf(examined, ref)
  if (mark === undefined || mark.isHeld || mark.state !== 0) return undefined
  return { ref, kind: 'record-stale', meaning: 'the task of this name is another one, which was never run' }
}

function readRecord({ spool }: ExaminedSpool, name: string): TaskRecord | undefined | 'closed' | 'gone' {
  try {
    const value: unknown = JSON.parse(readFileSync(toFsPath(`${spool}/${ROOM}/${name}`)))
    return isRecord(value) ? value : undefined
  } catch (error) {
    if (errnoOf(error) === undefined) return undefined // not JSON
    return errnoOf(error) === 'ENOENT' ? 'gone' : 'closed'
  }
}

/** Removes a record, under the lock of its task if there is one. */
function removeRecord(
  examined: ExaminedSpool,
  name: string,
  ref: Ref,
  kind: Finding['kind'],
): Promise<Repair> {
  const inode = statsOf(examined, `${ROOM}/${name}`)?.ino
  const remove = () => {
    const now = assess(examined, name)
    if (now?.kind !== kind || statsOf(examined, `${ROOM}/${name}`)?.ino !== inode) return OVER
    removeFile(examined, `${ROOM}/${name}`)
    return REPAIRED
  }
  return whileHeld(examined, ref, { fixGone: remove }, ({ file, mtimeMs }) => {
    const repair = remove()
    if (repair === REPAIRED && (file.state & RECORDED) !== 0) writeState(file.fd, file.state & ~RECORDED)
    setTime(file.fd, mtimeMs)
    return repair
  })
}

/** Finds the state of a periodic task that is not an entry of ours. */
export async function* checkPeriodic(examined: ExaminedSpool): AsyncGenerator<Finding> {
  if (!isOurDirectory(examined, 'periodic')) return
  for (const [key, { version, entry }] of readPeriodic(examined.spool)) {
    if (entry !== undefined) continue
    const path = `${STATE_DIRECTORY}/periodic/${key}.${version}`
    const isStill = () => {
      const found = readPeriodic(examined.spool).get(key)
      return found !== undefined && found.version === version && found.entry === undefined
    }
    yield {
      kind: 'periodic-broken',
      meaning: 'the state of a periodic task cannot be read; the task starts afresh when a daemon knows it',
      isStill,
      ...toBeRemoved(examined, path),
    }
  }
}

const PAUSED = `${STATE_DIRECTORY}/paused`

/** Finds what is paused, and a file that cannot be read as pauses. Only people can decide that tasks may start again. */
export async function* checkPauses({ spool }: ExaminedSpool): AsyncGenerator<Finding> {
  if (!isThere(toFsPath(pausesPath(spool)))) return
  const now = shownPauses(spool)
  const { pauses, fault, isUnread } = now
  if (isUnread)
    yield {
      kind: 'unchecked',
      path: PAUSED,
      meaning: `it is unknown what is paused, because ${fault}`,
      fix: 'spoold fsck again, once it can be read',
      isStill: () => readPauses(spool).isUnread === true,
    }
  else if (fault !== undefined)
    yield {
      kind: 'pause-broken',
      path: PAUSED,
      meaning: `${fault}, so it is unknown what is paused, and no task starts`,
      fix: `spoold resume --all ${shellWord(toFsPath(spool))}, once tasks may start`,
      isStill: () => readPauses(spool).fault !== undefined,
    }
  else if (pauses.length > 0)
    yield { kind: 'paused', path: PAUSED, meaning: describePauses(now), fix: '', isNote: true }
}

/** True if the file exists. Something else in the place of `.spoold` is another finding. */
function isThere(path: ReturnType<typeof toFsPath>): boolean {
  try {
    return lstatSync(path) !== undefined
  } catch (error) {
    if (errnoOf(error) === 'ENOTDIR') return false
    throw error
  }
}
