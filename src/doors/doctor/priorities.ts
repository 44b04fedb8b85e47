import { displayName, toByteString } from '../../base/task/ref.js'
import { scanAll } from '../../engines/spool/scan.js'
import { compareVersions } from '../../engines/spool/task-order.js'
import type { Diagnosis } from './diagnosis.js'

/** Counts tasks in priority directories that the configuration does not enter. @param spool its real path */
export async function* checkPriorities(spool: string): AsyncGenerator<Diagnosis> {
  const counts = new Map<string, number>()
  await scanAll(toByteString(spool), {
    task(ref) {
      const cut = ref.lastIndexOf('/') + 1
      if (cut > 0) counts.set(ref.slice(0, cut), (counts.get(ref.slice(0, cut)) ?? 0) + 1)
      return true
    },
    failed() {}, // whether this user may enter it is reported elsewhere
  })
  const sorted = [...counts].sort(([a], [b]) => compareVersions(a, b))
  for (const [prefix, count] of sorted)
    yield {
      level: 'warning',
      topic: 'spool',
      about: spool,
      text: `${count === 1 ? '1 task is' : `${count} tasks are`} not run in ${displayName(prefix)}: priority directories need spooler-ordered = true`,
      fix: 'set spooler-ordered = true, or move the files into the spool itself',
    }
}
