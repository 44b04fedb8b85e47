import { errnoOf } from '../../base/errors.js'
import { type Ref, toFsPath } from '../../base/task/ref.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { isRecord, type TaskRecord } from '../../engines/spool/records.js'
import { setTime } from '../../engines/spool/spool-file.js'
import { RECORDED, writeState } from '../../engines/spool/state-byte.js'
import { jsonNameOf } from '../../engines/spool/state-directory.js'
import { readFileSync } from '../../system/files/anchored-path.js'
import { type ExaminedSpool, filesIn, markOf, removeFile, statsOf } from './examined-spool.js'
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

/** Under the lock of its task, if there is one. */
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
  return whileHeld(examined, ref, { fixGone: remove }, file => {
    const repair = remove()
    if (repair === REPAIRED && (file.state & RECORDED) !== 0) writeState(file.fd, file.state & ~RECORDED)
    setTime(file.fd, file.mtimeMs)
    return repair
  })
}
