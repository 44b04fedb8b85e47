import { errnoOf } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { describePauses } from '../../base/task/pause.js'
import { toFsPath } from '../../base/task/ref.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { pausesPath, readPauses, shownPauses } from '../../engines/spool/pauses.js'
import { lstatSync } from '../../system/files/anchored-path.js'
import type { ExaminedSpool } from './examined-spool.js'
import type { Finding } from './finding.js'

const PATH = `${STATE_DIRECTORY}/paused`

/** What is paused, and a file that does not say so. Only people can decide that tasks may start again. */
export async function* checkPauses({ spool }: ExaminedSpool): AsyncGenerator<Finding> {
  if (!isThere(toFsPath(pausesPath(spool)))) return
  const now = shownPauses(spool)
  const { pauses, fault } = now
  if (fault !== undefined)
    yield {
      kind: 'pause-broken',
      path: PATH,
      meaning: `${fault}, so it is unknown what is paused, and no task starts`,
      fix: `spoold resume --all ${shellWord(toFsPath(spool))}, once tasks may start`,
      isStill: () => readPauses(spool).fault !== undefined,
    }
  else if (pauses.length > 0)
    yield { kind: 'paused', path: PATH, meaning: describePauses(now), fix: '', isNote: true }
}

/** What stands in the place of `.spoold` is another finding. */
function isThere(path: ReturnType<typeof toFsPath>): boolean {
  try {
    return lstatSync(path) !== undefined
  } catch (error) {
    if (errnoOf(error) === 'ENOTDIR') return false
    throw error
  }
}
