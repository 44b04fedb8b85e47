import { realpathSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf, messageOf } from '../../base/errors.js'
import { askDaemon, controlSocketsOf } from '../../control/client.js'
import { isRedisAddress } from '../../protocol/redis-address.js'
import { readSnapshot } from '../../stats/read-snapshot.js'
import type { DaemonFacts, DaemonSnapshot, ScheduleSnapshot, SpoolSnapshot } from '../../stats/snapshot.js'
import { type AloneSnapshot, lookAlone } from './alone.js'

/** One spool, as one of its daemons sees it; or as it looks, if none answers. */
export type SpoolStatus = DaemonStatus | AloneStatus | UnknownStatus

export interface DaemonStatus extends SpoolSnapshot {
  readonly source: 'daemon'
  readonly atMs: number
  readonly daemon: DaemonFacts
  /** Those that are fired for this spool, and the periodic tasks that are stored in it. */
  readonly schedules: readonly ScheduleSnapshot[]
}

export interface AloneStatus extends AloneSnapshot {
  readonly source: 'directory'
  readonly atMs: number
  /** Why no daemon was asked, if there may be one; null: none runs. */
  readonly because: string | null
}

/** It is no spool, or closed to this user. */
interface UnknownStatus {
  readonly source: 'none'
  readonly directory: string
  readonly because: string
}

/** How long a count of a long backlog is awaited. */
const COUNT_MS = 10_000
const COUNT_RETRY_MS = 250

const ON_REDIS =
  'of a spool on Redis, only its daemon can say it: name its socket of spooler-control (--control PATH)'

/**
 * Asks every daemon of a spool.
 *
 * @param needsCount the number of due tasks has to be whole: wait while a daemon counts a long backlog
 */
export async function statusOf(directory: string, needsCount: boolean): Promise<SpoolStatus[]> {
  if (isRedisAddress(directory)) return [unknown(directory, ON_REDIS)]
  try {
    const spool = realpathSync(directory)
    if (!statSync(spool).isDirectory()) return [unknown(directory, 'it is not a directory')]
    const { answered, because } = await askAll(spool, needsCount)
    return answered.length > 0 ? answered : [await alone(spool, because)]
  } catch (error) {
    const isMissing = errnoOf(error) === 'ENOENT'
    return [unknown(directory, isMissing ? 'it does not exist' : messageOf(error))]
  }
}

/** As `statusOf`, of all spools of the daemon that listens at this path. */
export async function statusAt(path: string, needsCount: boolean): Promise<SpoolStatus[]> {
  try {
    return of(await ask(path, undefined, needsCount))
  } catch (error) {
    return [unknown(path, messageOf(error))]
  }
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
  let sockets: string[]
  try {
    sockets = controlSocketsOf(spool)
  } catch (error) {
    return { answered: [], because: messageOf(error) }
  }
  const answers = await Promise.allSettled(sockets.map(path => ask(path, spool, needsCount)))
  const answered = answers.flatMap(answer => (answer.status === 'fulfilled' ? of(answer.value) : []))
  // a socket that refuses belongs to a daemon that is dead
  const faults = answers.flatMap(answer => (answer.status === 'rejected' ? [messageOf(answer.reason)] : []))
  return { answered, because: faults.find(fault => !fault.includes('ECONNREFUSED')) ?? null }
}

function of({ atMs, daemon, spools, schedules }: DaemonSnapshot): DaemonStatus[] {
  return spools.map(each => ({
    ...{ source: 'daemon', atMs, daemon, ...each },
    schedules: schedules.filter(({ spool }) => spool === each.directory),
  }))
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
