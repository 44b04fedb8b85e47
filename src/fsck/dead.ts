import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { errnoOf } from '../base/errors.js'
import { type DeadLetter, isLetter } from '../spool/dead-letters.js'
import { STATE_DIRECTORY } from '../spool/names.js'
import { jsonNameOf } from '../spool/record-name.js'
import { writeWhole } from '../spool/state-directory.js'
import { type Ref, toFsPath } from '../task/ref.js'
import { type ExaminedSpool, filesIn, removeFile, statsOf } from './examined-spool.js'
import { type Finding, OVER, REPAIRED } from './finding.js'
import { quietRecord } from './tasks.js'

const ROOM = `${STATE_DIRECTORY}/dead`
/** Reasons are smaller; tasks' names may end in .json, too. */
const MAX_REASON_BYTES = 1_048_576
const MAX_NAMESAKES = 10_000

/** Dead letters without a reason, and reasons without a file. */
export async function* checkDead(place: ExaminedSpool): AsyncGenerator<Finding> {
  for await (const name of filesIn(place, 'dead')) {
    if (name.endsWith('.tmp')) continue
    const reason = reasonIn(place, name)
    const finding = reason === undefined ? unexplained(place, name) : missing(place, name, reason)
    if (finding.isStill()) yield finding
  }
}

type Doubt = Finding & Required<Pick<Finding, 'isStill'>>

function missing(place: ExaminedSpool, json: string, reason: DeadLetter): Doubt {
  const name = nameOf(json, reason)
  // its burial may have failed, and is retried
  const isPending = quietRecord(place, reason.ref)?.burial !== undefined
  const isStill = () => !isPending && !hasFile(place, name) && reasonIn(place, json) !== undefined
  return {
    kind: 'dead-missing',
    path: `${ROOM}/${json}`,
    meaning: 'why a task was buried, and the task is not here: it came back, or never left the spool',
    fix: 'remove it: --repair does',
    isStill,
    repair() {
      if (!isStill()) return OVER
      removeFile(place, `${ROOM}/${json}`)
      return REPAIRED
    },
  }
}

function unexplained(place: ExaminedSpool, name: Ref): Doubt {
  const { letters } = place
  const isStill = () => hasFile(place, name) && reasonIn(place, jsonNameOf(name)) === undefined
  return {
    kind: 'dead-unexplained',
    path: `${ROOM}/${name}`,
    meaning: 'a dead letter, and nothing says why it is one',
    fix: 'write down that its reason is lost: --repair does',
    isStill,
    repair() {
      const stats = statsOf(place, `${ROOM}/${name}`)
      if (stats === undefined || !isStill()) return OVER
      const reason = lostReason(name, stats.ctimeMs)
      writeWhole(letters.jsonPathOf(name), JSON.stringify(reason), { flush: true })
      return REPAIRED
    },
  }
}

function lostReason(ref: Ref, buriedAt: number): DeadLetter {
  const detail = 'its reason was lost; spoold fsck wrote this one'
  return { ref, reason: 'unknown', detail, buriedAt, attempts: 0, crashes: 0, handlers: [], host: hostname() }
}

function hasFile(place: ExaminedSpool, name: Ref): boolean {
  return statsOf(place, `${ROOM}/${name}`)?.isFile() === true
}

/** undefined if it is not a reason. */
function reasonIn(place: ExaminedSpool, json: string): DeadLetter | undefined {
  const path = `${ROOM}/${json}`
  if (!json.endsWith('.json') || (statsOf(place, path)?.size ?? 0) > MAX_REASON_BYTES) return undefined
  try {
    const value: unknown = JSON.parse(readFileSync(toFsPath(`${place.spool}/${path}`), 'utf8'))
    return isLetter(value) ? value : undefined
  } catch (error) {
    if (errnoOf(error) === undefined || errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** The dead letter that a reason is about: the name of its task, with a number if that name was taken. */
function nameOf(json: string, { ref }: DeadLetter): Ref {
  const name = json.slice(0, -'.json'.length)
  if (name === ref || (name.startsWith(`${ref}.`) && jsonNameOf(name) === json)) return name
  for (let n = 1; n < MAX_NAMESAKES; n++) {
    const namesake = n === 1 ? ref : `${ref}.${n}`
    if (jsonNameOf(namesake) === json) return namesake
  }
  return name
}
