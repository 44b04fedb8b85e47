import { lstatSync } from '../../files/anchored-path.js'
import { listEntries } from '../../files/entries.js'
import { type Ref, toFsPath } from '../../task/ref.js'
import { createdAtMicros } from '../names.js'
import { jsonNameOf } from '../record-name.js'
import { hasStateRoom, stateRoom } from '../state-directory.js'
import { COMPARE_TASKS } from '../task-order.js'

/**
 * Sorts tasks into the order in which a daemon runs them if all are due: by priority, and within each in the order in which
 * they became runnable. For a name that contains no time, the ctime stands in for the moment a daemon first saw the file.
 *
 * @param spool its real path, a byte string
 */
export async function byAge(spool: string, refs: readonly Ref[]): Promise<Ref[]> {
  const recorded = await recordsIn(spool)
  const nowMicros = Date.now() * 1000
  const timeOf = (ref: Ref): number => {
    const stats = () => lstatSync(toFsPath(`${spool}/${ref}`))
    if (recorded.size > 0 && recorded.has(jsonNameOf(ref))) return (stats()?.mtimeMs ?? 0) * 1000
    const created = createdAtMicros(ref)
    return created !== undefined && created <= nowMicros ? created : (stats()?.ctimeMs ?? 0) * 1000
  }
  return refs
    .map(ref => ({ ref, time: timeOf(ref) }))
    .sort((a, b) => COMPARE_TASKS.age(a.ref, a.time, b.ref, b.time))
    .map(({ ref }) => ref)
}

/** The names of the records, of tasks that have run or are held; as far as this user may see them. */
async function recordsIn(spool: string): Promise<ReadonlySet<string>> {
  const names = new Set<string>()
  const list = async (prefix: string): Promise<void> => {
    for await (const entry of listEntries(`${stateRoom(spool, 'records')}/${prefix}`))
      if (entry.isDirectory()) await list(`${prefix}${entry.name}/`)
      else names.add(prefix + entry.name)
  }
  try {
    if (hasStateRoom(spool, 'records')) await list('')
  } catch {
    // belongs to another user; the task names still give an order
  }
  return names
}
