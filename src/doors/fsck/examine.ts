import { opendirSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { errnoOf, messageOf } from '../../base/errors.js'
import { toFsPath } from '../../base/task/ref.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { checkDead } from './dead.js'
import { type ExaminedSpool, statsOf } from './examined-spool.js'
import type { Finding } from './finding.js'
import { checkIds, checkLeases, checkLitter, checkUnfinished } from './leftovers.js'
import { checkPauses, checkPeriodic, checkRecords } from './records.js'
import { checkRights, checkStateDirectories } from './rights.js'
import { checkTasks, checkVisits } from './tasks.js'

const SUSPECTS_PER_BATCH = 5000
/** Longer than the time between any two related steps of a daemon. */
const SECOND_LOOK_MS = 100

/** Yields the findings whose repairs need rights over other users' files. Root does only these repairs, on inodes. */
export async function* examineRights(examined: ExaminedSpool): AsyncGenerator<Finding> {
  yield* confirmed(checkRights(examined))
}

const CHECKS = [
  checkStateDirectories,
  checkUnfinished,
  checkIds,
  checkLitter,
  checkLeases,
  checkRecords,
  checkTasks,
  checkVisits,
  checkDead,
  checkPauses,
  checkPeriodic,
]

/** Yields all other findings. Their repairs are done as the user of the spool, who then owns what they create. */
export async function* examineSpool(examined: ExaminedSpool): AsyncGenerator<Finding> {
  try {
    statsOf(examined, STATE_DIRECTORY)
    opendirSync(toFsPath(examined.spool)).closeSync()
  } catch (error) {
    if (errnoOf(error) === 'EACCES') return yield unchecked(error)
  }
  for (const check of CHECKS) yield* confirmed(check(examined))
}

function unchecked(error: unknown): Finding {
  return {
    kind: 'unchecked',
    path: '',
    meaning: `it could not be examined by uid ${process.geteuid?.()}: ${messageOf(error)}`,
    fix: 'spoold doctor says what prevents it, for the user of a configuration',
  }
}

/**
 * Yields the findings that are still there a moment later, because a daemon may be between any two steps, such as a task and its
 * record. Only the candidates of one pass are kept in memory.
 */
async function* confirmed(check: AsyncGenerator<Finding>): AsyncGenerator<Finding> {
  let suspects: Finding[] = []
  try {
    for await (const suspect of check) {
      suspects.push(suspect)
      if (suspects.length < SUSPECTS_PER_BATCH) continue
      yield* await secondLook(suspects)
      suspects = []
    }
    yield* await secondLook(suspects)
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    yield unchecked(error)
  }
}

async function secondLook(suspects: readonly Finding[]): Promise<readonly Finding[]> {
  if (suspects.some(({ isStill }) => isStill !== undefined)) await setTimeout(SECOND_LOOK_MS)
  return suspects.filter(({ isStill }) => isStill?.() ?? true)
}
