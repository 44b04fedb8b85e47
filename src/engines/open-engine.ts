import { hostname } from 'node:os'
import type { Emitter } from '../base/events/emitter.js'
import type { MemberFacts } from '../base/task/member.js'
import { isRedisAddress, redisAddressOf } from '../formats/protocol/redis-address.js'
import type { WorkerClaims } from './claims.js'
import type { Upkeep } from './contracts/upkeep.js'
import { controlSocketsOf } from './control/client.js'
import { isControlHome } from './control/home.js'
import type { Aside } from './directory/aside-work.js'
import type { DirectoryFeedOptions } from './directory/feed.js'
import type { Enqueuer } from './enqueuer.js'
import type { Source } from './feed.js'
import type { AwayListener, Forwarder } from './forwarder.js'
import type { MemorySpool } from './memory/spool.js'
import { redisEngine } from './redis/engine.js'
import type { RedisFacts, ServerOverview } from './server-facts.js'
import type { DirectoryClaimsOptions } from './spool/claims/claims.js'
import type { TaskStore } from './task-store.js'

/** Options for a master. An engine uses those that apply to its tasks. */
export type FeedOptions = Omit<DirectoryFeedOptions, 'spool'>
/** Options for a worker. */
export interface ClaimsOptions extends Omit<DirectoryClaimsOptions, 'spool'> {
  /** Tells people something about a task that this worker has. */
  readonly tell?: ((task: string, message: string) => void) | undefined
}

/** Where the tasks of one spool are stored. Each process loads only the parts that it needs. */
export interface Engine {
  enqueuer(sync: boolean): Promise<Enqueuer>
  feed(options: FeedOptions, events: Emitter): Promise<Source>
  /** Opens the claims of one worker. */
  claims(options: ClaimsOptions): Promise<WorkerClaims>
  /** @param aside does all work on task files; absent: this process does it itself */
  upkeep(aside?: Aside): Promise<Upkeep>
  /** Absent: no tasks are forwarded there. */
  forwarder?(away: AwayListener): Promise<Forwarder>
  /** Absent: the spool is not on a server. */
  facts?(): Promise<RedisFacts>
  overview?(): Promise<ServerOverview>
  /** Returns the processes on all machines that run the spool's tasks. Absent: they are found in the spool itself. */
  members?(): Promise<readonly MemberFacts[]>
}

/** Chooses the engine of a spool; nothing else does. @param spool its real path, or its name or address on Redis */
export function openEngine(spool: string): Engine {
  return isRedisAddress(spool) ? redis(spool) : directoryEngine(spool)
}

function redis(spool: string) {
  return redisEngine(redisAddressOf(spool), (directory, sync) => directoryEngine(directory).enqueuer(sync))
}

/**
 * Returns the sockets on this machine on which daemons of a spool may listen. A dead daemon may have left one.
 *
 * @param spool its real path, or its name on Redis
 * @throws as `controlSocketsOf`; SpooldError REDIS_UNREACHABLE
 */
export async function daemonSocketsOf(spool: string): Promise<string[]> {
  if (!isRedisAddress(spool)) return controlSocketsOf(spool)
  const members = await redis(spool).members()
  const homes = members.flatMap(({ host, controls }) =>
    host === hostname() && controls !== null && isControlHome(controls, spool) ? [controls] : [],
  )
  return [...new Set(homes)].flatMap(socketsIn)
}

/**
 * Returns the sockets in a directory that a member names; none if it cannot be read, because it may be a directory of the same
 * name on another machine, or closed to us.
 */
function socketsIn(home: string): string[] {
  try {
    return controlSocketsOf(home)
  } catch {
    return []
  }
}

interface StoreOptions {
  /** Asks the daemons of a directory which due tasks they have parked. Without this, no task there is shown as parked. */
  readonly asksDaemons?: boolean
  /** The sockets at which to ask, if not those in the spool. */
  readonly sockets?: readonly string[] | undefined
}

/** Opens the tasks of a spool. @param spool its real path, or its name or address on Redis */
export async function openTaskStore(spool: string, options: StoreOptions = {}): Promise<TaskStore> {
  if (isRedisAddress(spool)) return redis(spool).tasks()
  const { DirectoryTaskStore } = await import('./directory/task-store.js')
  return DirectoryTaskStore.open(spool, options)
}

function directoryEngine(spool: string): Engine {
  return {
    async enqueuer(sync) {
      const { DirectoryEnqueuer } = await import('./directory/enqueuer.js')
      return new DirectoryEnqueuer(spool, sync)
    },
    async feed(options, events) {
      const { DirectoryFeed } = await import('./directory/feed.js')
      return new DirectoryFeed({ ...options, spool }, events)
    },
    async claims(options) {
      const { openDirectoryClaims } = await import('./spool/claims/claims.js')
      return openDirectoryClaims({ ...options, spool })
    },
    async upkeep(aside) {
      const { DirectoryUpkeep } = await import('./directory/upkeep.js')
      return new DirectoryUpkeep(spool, aside)
    },
  }
}

/** Opens a new spool in memory. It lives as long as the returned engine, and only that engine has it. @param name for people */
export function memoryEngine(name: string): Engine {
  let opened: Promise<MemorySpool> | undefined
  const open = () => {
    opened ??= import('./memory/spool.js').then(({ MemorySpool }) => new MemorySpool(name))
    return opened
  }
  return {
    async enqueuer() {
      const { MemoryEnqueuer } = await import('./memory/enqueuer.js')
      return new MemoryEnqueuer(await open())
    },
    async feed({ frequencyMs }) {
      const { MemoryFeed } = await import('./memory/feed.js')
      return new MemoryFeed(await open(), frequencyMs)
    },
    async claims(options) {
      const { MemoryClaims } = await import('./memory/claims.js')
      return new MemoryClaims(await open(), options)
    },
    async upkeep() {
      const { MemoryUpkeep } = await import('./memory/upkeep.js')
      return new MemoryUpkeep(await open())
    },
  }
}
