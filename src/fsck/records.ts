import { readFileSync } from 'node:fs'
import { errnoOf } from '../base/errors.js'
import { STATE_DIRECTORY } from '../spool/names.js'
import { jsonNameOf } from '../spool/record-name.js'
import { isRecord, type TaskRecord } from '../spool/records.js'
import { setTime } from '../spool/spool-file.js'
import { RECORDED, writeState } from '../spool/state-byte.js'
import { type Ref, toFsPath } from '../task/ref.js'
import { type ExaminedSpool, filesIn, markOf, removeFile, statsOf } from './examined-spool.js'
import { type Finding, OVER, REPAIRED, type Repair } from './finding.js'
import { whileHeld } from './hold.js'

const ROOM = `${STATE_DIRECTORY}/records`

/** Compares each record with its task. */
export async function* checkRecords(place: ExaminedSpool): AsyncGenerator<Finding> {
  for await (const name of filesIn(place, 'records')) {
    if (!name.endsWith('.json')) continue
    const story = assess(place, name)
    if (story === undefined) continue
    const { ref, ...told } = story
    yield {
      ...told,
      path: `${ROOM}/${name}`,
      fix: 'remove it: --repair does',
      isStill: () => assess(place, name)?.kind === story.kind,
      repair: () => removeRecord(place, name, ref, story.kind),
    }
  }
}

interface Assessment extends Pick<Finding, 'kind' | 'meaning'> {
  readonly ref: Ref
}

function assess(place: ExaminedSpool, name: string): Assessment | undefined {
  const record = readRecord(place, name)
  if (record === 'closed' || record === 'gone') return undefined
  const ref = record?.ref ?? name.slice(0, -'.json'.length)
  if (record === undefined || jsonNameOf(ref) !== name)
    return {
      ref,
      kind: 'record-broken',
      meaning: 'it cannot be read as a record, so its task counts from 1 again',
    }
  if (statsOf(place, ref) === undefined)
    return {
      ref,
      kind: 'record-orphan',
      meaning: 'its task is gone; a new one of that name would not be taken for it',
    }
  const mark = markOf(place, ref)
  if (mark === undefined || mark.isHeld || mark.state !== 0) return undefined
  return { ref, kind: 'record-stale', meaning: 'its task was never run: it is another one of that name' }
}

function readRecord({ spool }: ExaminedSpool, name: string): TaskRecord | undefined | 'closed' | 'gone' {
  try {
    const value: unknown = JSON.parse(readFileSync(toFsPath(`${spool}/${ROOM}/${name}`), 'utf8'))
    return isRecord(value) ? value : undefined
  } catch (error) {
    if (errnoOf(error) === undefined) return undefined // not JSON
    return errnoOf(error) === 'ENOENT' ? 'gone' : 'closed'
  }
}

/** Under the lock of its task, if there is one. */
function removeRecord(place: ExaminedSpool, name: string, ref: Ref, kind: Finding['kind']): Promise<Repair> {
  const inode = statsOf(place, `${ROOM}/${name}`)?.ino
  const remove = () => {
    const now = assess(place, name)
    if (now?.kind !== kind || statsOf(place, `${ROOM}/${name}`)?.ino !== inode) return OVER
    removeFile(place, `${ROOM}/${name}`)
    return REPAIRED
  }
  return whileHeld(place, ref, { fixGone: remove }, file => {
    const repair = remove()
    if (repair === REPAIRED && (file.state & RECORDED) !== 0) writeState(file.fd, file.state & ~RECORDED)
    setTime(file.fd, file.mtimeMs)
    return repair
  })
}
