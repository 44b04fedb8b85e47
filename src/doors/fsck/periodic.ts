import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { readPeriodic } from '../../engines/spool/periodic-states.js'
import { type ExaminedSpool, isOurDirectory, removeFile, statsOf } from './examined-spool.js'
import { type Finding, OVER, REPAIRED } from './finding.js'

/** What is remembered of a periodic task, and is no entry of ours. */
export async function* checkPeriodic(examined: ExaminedSpool): AsyncGenerator<Finding> {
  if (!isOurDirectory(examined, 'periodic')) return
  for (const [key, { version, entry }] of readPeriodic(examined.spool)) {
    if (entry !== undefined) continue
    const path = `${STATE_DIRECTORY}/periodic/${key}.${version}`
    const isStill = () => {
      const found = readPeriodic(examined.spool).get(key)
      return found !== undefined && found.version === version && found.entry === undefined
    }
    const repair = () => {
      if (!isStill()) return OVER
      removeFile(examined, path)
      return REPAIRED
    }
    yield {
      kind: 'periodic-broken',
      path,
      meaning:
        'what is remembered of a periodic task cannot be read; the task starts anew when a daemon knows it',
      fix: 'remove it: --repair does',
      isStill,
      ...(statsOf(examined, path)?.isDirectory() === true ? {} : { repair }),
    }
  }
}
