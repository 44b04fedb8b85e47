import { hostname } from 'node:os'
import { errnoOf } from '../../base/errors.js'
import { type Ref, toFsPath } from '../../base/task/ref.js'
import { type DeadLetter, isLetter, MAX_NAMESAKES } from '../../engines/spool/dead-letters.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { jsonNameOf, writeWhole } from '../../engines/spool/state-directory.js'
import { readFileSync } from '../../system/files/anchored-path.js'
import { type ExaminedSpool, filesIn, statsOf, toBeRemoved } from './examined-spool.js'
import { type Finding, OVER, REPAIRED } from './finding.js'
import { quietRecord } from './tasks.js'

const ROOM = `${STATE_DIRECTORY}/dead`
/** Reasons are smaller than this. The limit matters because tasks' names may end in .json, too. */
const MAX_REASON_BYTES = 1_048_576

/** Finds dead letters without a reason, and reasons without a file. */
export async function* checkDead(examined: ExaminedSpool): AsyncGenerator<Finding> {
  for await (const name of filesIn(examined, 'dead')) {
    if (name.endsWith('.tmp')) continue
    const reason = reasonIn(examined, name)
    const finding = reason === undefined ? unexplained(examined, name) : missing(examined, name, reason)
    if (finding.isStill()) yield finding
  }
}

type Doubt = Finding & Required<Pick<Finding, 'isStill'>>

function missing(examined: ExaminedSpool, json: string, reason: DeadLetter): Doubt {
  const name = nameOf(json, reason)
  // the burial may have failed, and is then retried
  const isPending = quietRecord(examined, reason.ref)?.burial !== undefined
  const isStill = () => !isPending && !hasFile(examined, name) && reasonIn(examined, json) !== undefined
  return {
    kind: 'dead-missing',
    meaning: 'a reason without its dead letter: the task came back, or never left the spool',
    isStill,
    ...toBeRemoved(examined, `${ROOM}/${json}`),
  }
}

function unexplained(examined: ExaminedSpool, name: Ref): Doubt {
  const { letters } = examined
  const isStill = () => hasFile(examined, name) && reasonIn(examined, jsonNameOf(name)) === undefined
  return {
    kind: 'dead-unexplained',
    path: `${ROOM}/${name}`,
    meaning: 'a dead letter without a reason',
    fix: '--repair writes that its reason is unknown',
    isStill,
    repair() {
      const stats = statsOf(examined, `${ROOM}/${name}`)
      if (stats === undefined) return OVER
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

function hasFile(examined: ExaminedSpool, name: Ref): boolean {
  return statsOf(examined, `${ROOM}/${name}`)?.isFile() === true
}

/** Returns the reason of a dead letter; undefined if the file is not one. */
function reasonIn(examined: ExaminedSpool, json: string): DeadLetter | undefined {
  const path = `${ROOM}/${json}`
  if (!json.endsWith('.json') || (statsOf(examined, path)?.size ?? 0) > MAX_REASON_BYTES) return undefined
  try {
    const value: unknown = JSON.parse(readFileSync(toFsPath(`${examined.spool}/${path}`)))
    return isLetter(value) ? value : undefined
  } catch (error) {
    if (errnoOf(error) === undefined || errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Returns the dead letter that a reason is about: the name of its task, with a number if that name was taken. */
function nameOf(json: string, { ref }: DeadLetter): Ref {
  const name = json.slice(0, -'.json'.length)
  if (name === ref || (name.startsWith(`${ref}.`) && jsonNameOf(name) === json)) return name
  for (let n = 1; n < MAX_NAMESAKES; n++) {
    const namesake = n === 1 ? ref : `${ref}.${n}`
    if (jsonNameOf(namesake) === json) return namesake
  }
  return name
}
