import { type Ref, toFsPath } from '../../../base/task/ref.js'
import { lstatSync } from '../../../system/files/anchored-path.js'
import { listEntries } from '../../../system/files/entries.js'
import { createdAtMicros } from '../names.js'
import { jsonNameOf } from '../record-name.js'
import { hasStateRoom, stateRoom } from '../state-directory.js'

/**
 * When a task became runnable, in µs, as a daemon assumes that starts now and finds every task due: with its priority, this
 * gives the order in which tasks run. For a name that contains no time, the ctime stands in for the moment a daemon first
 * saw the file.
 *
 * @param spool its real path, a byte string
 */
export async function runTimes(spool: string): Promise<(ref: Ref) => number> {
  const hasRecord = await recordTest(spool)
  const nowMicros = Date.now() * 1000
  return ref => {
    const stats = () => lstatSync(toFsPath(`${spool}/${ref}`))
    if (hasRecord(ref)) return (stats()?.mtimeMs ?? 0) * 1000
    const created = createdAtMicros(ref)
    return created !== undefined && created <= nowMicros ? created : (stats()?.ctimeMs ?? 0) * 1000
  }
}

/** More names than this are not kept in memory: each record is looked up instead. */
const MAX_KEPT = 20_000

/** Does a task have a record, because it has run or is held? As far as this user may see that. */
async function recordTest(spool: string): Promise<(ref: Ref) => boolean> {
  const names = new Set<string>()
  try {
    if (hasStateRoom(spool, 'records')) await addRecords(spool, '', names)
  } catch {
    // belongs to another user; the task names still give an order
  }
  if (names.size === 0) return () => false
  if (names.size < MAX_KEPT) return ref => names.has(jsonNameOf(ref))
  return ref => lstatSync(toFsPath(`${stateRoom(spool, 'records')}/${jsonNameOf(ref)}`)) !== undefined
}

async function addRecords(spool: string, prefix: string, names: Set<string>): Promise<void> {
  for await (const entry of listEntries(`${stateRoom(spool, 'records')}/${prefix}`)) {
    if (entry.isDirectory()) await addRecords(spool, `${prefix}${entry.name}/`, names)
    else names.add(prefix + entry.name)
    if (names.size >= MAX_KEPT) return
  }
}
