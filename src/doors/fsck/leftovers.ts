import { baseName } from '../../base/task/ref.js'
import { clearLeftover, idsIn, leftoversIn } from '../../engines/spool/admin/sweep.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { hiddenRef, publishPromised } from '../../engines/spool/store/draft.js'
import { listEntries } from '../../system/files/entries.js'
import { clearLease, isExpired } from '../../system/files/lease.js'
import {
  type ExaminedSpool,
  filesIn,
  isOurDirectory,
  removeFile,
  statsOf,
  toBeRemoved,
} from './examined-spool.js'
import { type Finding, OVER, REPAIRED } from './finding.js'

const BY_REPAIR = '--repair does this, and so does a running daemon'

/** Finds hidden files that dead writers left. */
export async function* checkUnfinished(examined: ExaminedSpool): AsyncGenerator<Finding> {
  const { spool, graceMs } = examined
  if (graceMs === 0) return
  const beforeMs = Date.now() - graceMs
  for await (const { ref, isPromised } of leftoversIn(spool, beforeMs)) {
    const path = hiddenRef(ref)
    const isStill = () => statsOf(examined, path) !== undefined
    if (isPromised)
      yield {
        kind: 'promised',
        path,
        meaning: 'a complete task with an id, whose writer died before publishing it',
        fix: `publish it: ${BY_REPAIR}`,
        isStill,
        repair: () => (publishPromised(spool, ref) ? REPAIRED : OVER),
      }
    else
      yield {
        kind: 'unfinished',
        path,
        meaning: 'its writer died before it was stored, and no caller was sent an acknowledgement',
        fix: `remove it: ${BY_REPAIR}`,
        isStill,
        repair: async () => ((await clearLeftover(spool, ref, beforeMs)) ? REPAIRED : OVER),
      }
  }
}

/** Finds ids that have expired, and files that are not ids. */
export async function* checkIds(examined: ExaminedSpool): AsyncGenerator<Finding> {
  if (!isOurDirectory(examined, 'ids')) return
  for await (const { name, ref, sinceMs } of idsIn(examined.spool)) {
    const path = `${STATE_DIRECTORY}/ids/${name}`
    const stats = statsOf(examined, path)
    if (stats === undefined) continue
    const isStill = () => statsOf(examined, path)?.ino === stats.ino
    if (ref === undefined)
      yield {
        kind: 'id-broken',
        meaning: 'it names no task, and callers with this id are refused',
        isStill,
        ...toBeRemoved(examined, path),
      }
    else if (examined.idTtlMs > 0 && sinceMs < Date.now() - examined.idTtlMs)
      yield {
        kind: 'id-expired',
        path,
        meaning: 'an id older than spooler-id-ttl',
        fix: `forget it: ${BY_REPAIR}`,
        isStill,
        repair() {
          publishPromised(examined.spool, ref)
          removeFile(examined, path)
          return REPAIRED
        },
      }
  }
}

const LITTER = /\.[0-9a-f]+\.tmp$/

const TOP_LITTER = /^probe-[0-9a-f]+$|^(?:format|hide|paused)\.[0-9a-f]+\.tmp$/

/** Finds files that should have been renamed at once, and files of a probe. */
export async function* checkLitter(examined: ExaminedSpool): AsyncGenerator<Finding> {
  if (examined.graceMs === 0 || !isOurDirectory(examined, '.')) return
  for (const room of ['.', 'records', 'dead'])
    for await (const name of room === '.' ? topFiles(examined) : filesIn(examined, room)) {
      const path = room === '.' ? `${STATE_DIRECTORY}/${name}` : `${STATE_DIRECTORY}/${room}/${name}`
      const isStill = () =>
        (statsOf(examined, path)?.ctimeMs ?? Number.POSITIVE_INFINITY) < Date.now() - examined.graceMs
      if (!(room === '.' ? TOP_LITTER : LITTER).test(baseName(name)) || !isStill()) continue
      if (room === 'dead' && examined.letters.read(name) !== undefined) continue // a task may have such a name
      yield {
        kind: 'litter',
        meaning: 'a daemon died while writing it; it is never read',
        isStill,
        ...toBeRemoved(examined, path),
      }
    }
}

async function* topFiles(examined: ExaminedSpool): AsyncGenerator<string> {
  for await (const entry of listEntries(`${examined.spool}/${STATE_DIRECTORY}`))
    if (entry.isFile()) yield entry.name
}

/** Yields what may be a lease of a task or of a schedule, or of a slot, which has a directory per name. */
async function* leasesIn(examined: ExaminedSpool): AsyncGenerator<string> {
  const rooms = ['locks', ...(await slotRooms(examined))]
  for (const room of rooms.filter(each => isOurDirectory(examined, each)))
    for await (const { name } of listEntries(`${examined.spool}/${STATE_DIRECTORY}/${room}`))
      yield `${STATE_DIRECTORY}/${room}/${name}`
}

async function slotRooms(examined: ExaminedSpool): Promise<string[]> {
  const rooms: string[] = []
  if (!isOurDirectory(examined, 'slots')) return rooms
  for await (const { name } of listEntries(`${examined.spool}/${STATE_DIRECTORY}/slots`))
    rooms.push(`slots/${name}`)
  return rooms
}

/** Finds leases that are not renewed, because their holders died. */
export async function* checkLeases(examined: ExaminedSpool): AsyncGenerator<Finding> {
  for await (const path of leasesIn(examined)) {
    const isStill = () => {
      const stats = statsOf(examined, path)
      return stats?.isDirectory() === true && isExpired(stats)
    }
    if (!isStill()) continue
    yield {
      kind: 'lease-stale',
      path,
      meaning: 'its holder died; the next process that needs it takes it over',
      fix: 'remove it: --repair does',
      isStill,
      repair: () => (clearLease(`${examined.spool}/${path}`) ? REPAIRED : OVER),
    }
  }
}
