import type { Emitter } from '../events/emitter.js'
import type { Claims } from './claims.js'
import type { DirectoryClaimsOptions } from './directory/claims.js'
import type { DirectoryFeedOptions } from './directory/feed.js'
import type { Enqueuer } from './enqueuer.js'
import type { Feed } from './feed.js'
import type { MemorySpool } from './memory/spool.js'
import type { Upkeep } from './upkeep.js'

/** Options for a master; an engine uses those that apply to its tasks. */
export type FeedOptions = Omit<DirectoryFeedOptions, 'spool'>
/** Options for a worker. */
type ClaimsOptions = Omit<DirectoryClaimsOptions, 'spool'>

/** Where the tasks of one spool are stored. Each process loads only the parts that it needs. */
interface Engine {
  enqueuer(sync: boolean): Promise<Enqueuer>
  feed(options: FeedOptions, events: Emitter): Promise<Feed>
  /** For one worker. */
  claims(options: ClaimsOptions): Promise<Claims>
  upkeep(): Promise<Upkeep>
}

const MEMORY = 'memory:'
/** The spools of this process, by name. */
const memorySpools = new Map<string, MemorySpool>()

/**
 * The only place that chooses the engine.
 *
 * @param spooler `memory:` and a name, for a spool that lives and ends with this process; else a directory's real
 *   path
 */
export function openEngine(spooler: string): Engine {
  return spooler.startsWith(MEMORY) ? memoryEngine(spooler) : directoryEngine(spooler)
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
      const { openDirectoryClaims } = await import('./directory/claims.js')
      return openDirectoryClaims({ ...options, spool })
    },
    async upkeep() {
      const { DirectoryUpkeep } = await import('./directory/upkeep.js')
      return new DirectoryUpkeep(spool)
    },
  }
}

function memoryEngine(name: string): Engine {
  const opening = import('./memory/spool.js').then(({ MemorySpool }) => {
    const spool = memorySpools.get(name) ?? new MemorySpool(name)
    memorySpools.set(name, spool)
    return spool
  })
  return {
    async enqueuer() {
      const { MemoryEnqueuer } = await import('./memory/enqueuer.js')
      return new MemoryEnqueuer(await opening)
    },
    async feed({ frequencyMs }) {
      const { MemoryFeed } = await import('./memory/feed.js')
      return new MemoryFeed(await opening, frequencyMs)
    },
    async claims(options) {
      const { MemoryClaims } = await import('./memory/claims.js')
      return new MemoryClaims(await opening, options)
    },
    async upkeep() {
      const { MemoryUpkeep } = await import('./memory/upkeep.js')
      return new MemoryUpkeep(await opening)
    },
  }
}
