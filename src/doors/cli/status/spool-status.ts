import { realpathSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf, messageOf } from '../../../base/errors.js'
import { askDaemon, askEach } from '../../../engines/control/client.js'
import { daemonSocketsOf, openEngine } from '../../../engines/open-engine.js'
import type { ServerStatus } from '../../../engines/server-facts.js'
import { sameDirectory } from '../../../engines/spool/permissions.js'
import { isRedisAddress, nameOfRedis } from '../../../formats/protocol/redis-address.js'
import { readSnapshot } from '../../../runtime/stats/read-snapshot.js'
import type {
  DaemonFacts,
  DaemonSnapshot,
  ScheduleSnapshot,
  SpoolSnapshot,
} from '../../../runtime/stats/snapshot.js'
import { type AloneSnapshot, aloneOnServer, lookAlone } from './alone.js'

/** The status of one spool as one of its daemons tells it, or as a look from outside finds it, if none answers. */
export type SpoolStatus = DaemonStatus | AloneStatus | UnknownStatus

export interface DaemonStatus extends SpoolSnapshot {
  readonly source: 'daemon'
  readonly atMs: number
  /** The facts of the server, for a spool on Redis. */
  readonly redis?: ServerStatus
  readonly daemon: DaemonFacts
  /** The schedules that are fired for this spool, and the periodic tasks that are stored in it. */
  readonly schedules: readonly ScheduleSnapshot[]
}

export interface AloneStatus extends AloneSnapshot {
  readonly source: 'directory' | 'redis'
  readonly atMs: number
  readonly redis?: ServerStatus
  /** Why no daemon could be asked, if there may be one; null if none runs. */
  readonly because: string | null
}

/** The status of a place that is no spool, or is closed to this user. */
interface UnknownStatus {
  readonly source: 'none'
  readonly directory: string
  readonly because: string
}

/** The longest wait until a daemon has counted a long backlog. */
const COUNT_MS = 10_000
const COUNT_RETRY_MS = 250

/**
 * Returns the status of a spool from each of its daemons, or from a look at the spool if none answers.
 *
 * @param needsCount true if the number of due tasks has to be whole: waits while a daemon counts a long backlog
 */
export async function statusOf(directory: string, needsCount: boolean): Promise<SpoolStatus[]> {
  try {
    if (isRedisAddress(directory)) return await statusOnRedis(nameOfRedis(directory), needsCount)

    const spool = sameDirectory(directory, realpathSync.native(directory))
    if (!statSync(spool).isDirectory()) return [unknown(directory, 'it is not a directory')]
    const { answered, because } = await askAll(spool, needsCount)
    return answered.length > 0 ? answered : [await alone(spool, because)]
  } catch (error) {
    const isMissing = errnoOf(error) === 'ENOENT'
    return [unknown(directory, isMissing ? 'it does not exist' : messageOf(error))]
  }
}

/** As `statusOf`, for all spools of the daemon that listens at this path. */
export async function statusAt(path: string, needsCount: boolean): Promise<SpoolStatus[]> {
  try {
    const snapshot = await ask(path, undefined, needsCount)
    const all = of(snapshot)
    return all.length > 0 ? all : [unknown(path, `its daemon is ${snapshot.daemon.state}`)]
  } catch (error) {
    return [unknown(path, messageOf(error))]
  }
}

/** Adds what Redis tells of the spool, and of daemons on other machines, to what the daemons on this machine tell. */
async function statusOnRedis(spool: string, needsCount: boolean): Promise<SpoolStatus[]> {
  const overview = await openEngine(spool).overview?.()
  if (overview === undefined) return [unknown(spool, 'it is not on a server')]
  const { answered, because } = await askAll(spool, needsCount)
  const { server: redis } = overview
  if (answered.length > 0) return answered.map(each => ({ ...each, redis }))
  return [{ source: 'redis', because, redis, ...aloneOnServer(spool, overview) }]
}

function unknown(directory: string, because: string): UnknownStatus {
  return { source: 'none', directory, because }
}

async function alone(spool: string, because: string | null): Promise<AloneStatus> {
  return { source: 'directory', atMs: Date.now(), because, ...(await lookAlone(spool)) }
}

async function askAll(
  spool: string,
  needsCount: boolean,
): Promise<{ answered: DaemonStatus[]; because: string | null }> {
  try {
    const { answers, fault } = await askEach(await daemonSocketsOf(spool), path =>
      ask(path, spool, needsCount),
    )
    return { answered: answers.flatMap(({ answer }) => of(answer)), because: fault ?? null }
  } catch (error) {
    return { answered: [], because: messageOf(error) }
  }
}

function of({ atMs, daemon, spools, schedules }: DaemonSnapshot): DaemonStatus[] {
  return spools.map(each => ({
    ...{ source: 'daemon', atMs, daemon, ...each },
    schedules: schedules.filter(({ spool }) => spool === each.directory),
  }))
}

/** Returns each schedule once, even if several daemons have it; the one that fires next is the first. */
export function schedulesOf(statuses: readonly SpoolStatus[]): ScheduleSnapshot[] {
  const all = statuses.flatMap(status => (status.source === 'daemon' ? status.schedules : []))
  const soonest = ({ nextAtMs }: ScheduleSnapshot) => nextAtMs ?? Number.POSITIVE_INFINITY
  const once = new Map(all.map(each => [each.id, each]))
  return [...once.values()].sort((a, b) => (soonest(a) < soonest(b) ? -1 : 1))
}

async function ask(path: string, spool: string | undefined, needsCount: boolean): Promise<DaemonSnapshot> {
  const giveUpAt = performance.now() + COUNT_MS
  for (;;) {
    const snapshot = readSnapshot(await askDaemon(path, 'snapshot', spool === undefined ? {} : { spool }))
    if (snapshot === undefined) throw new Error('its daemon answers in another version of the snapshot')
    const isCounted = snapshot.spools.every(({ tasks }) => tasks.isWhole || tasks.stored !== null)
    if (isCounted || !needsCount || performance.now() > giveUpAt) return snapshot
    await sleep(COUNT_RETRY_MS)
  }
}
