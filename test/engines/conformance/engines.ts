import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import type { LastRun } from '#src/base/task/last-run.js'
import type { Company } from '#src/base/task/outcome.js'
import type { Ref } from '#src/base/task/ref.js'
import type { Claim, Claims } from '#src/engines/claims.js'
import { openDirectoryClaims } from '#src/engines/directory/claims.js'
import { DirectoryEnqueuer } from '#src/engines/directory/enqueuer.js'
import { DirectoryFeed } from '#src/engines/directory/feed.js'
import { DirectoryUpkeep } from '#src/engines/directory/upkeep.js'
import type { Enqueuer } from '#src/engines/enqueuer.js'
import type { Feed } from '#src/engines/feed.js'
import { MemoryClaims } from '#src/engines/memory/claims.js'
import { MemoryEnqueuer } from '#src/engines/memory/enqueuer.js'
import { MemoryFeed } from '#src/engines/memory/feed.js'
import { MemorySpool } from '#src/engines/memory/spool.js'
import { MemoryUpkeep } from '#src/engines/memory/upkeep.js'
import { RedisClaims } from '#src/engines/redis/claims.js'
import { Connection } from '#src/engines/redis/connection.js'
import { RedisEnqueuer } from '#src/engines/redis/enqueuer.js'
import { RedisFeed } from '#src/engines/redis/feed.js'
import { type Libraries, loadLibraries } from '#src/engines/redis/libraries.js'
import { ticketRef } from '#src/engines/redis/refs.js'
import { RedisUpkeep } from '#src/engines/redis/upkeep.js'
import type { Upkeep } from '#src/engines/upkeep.js'
import { parseRedisAddress } from '#src/formats/protocol/redis-address.js'
import { CLAIMS_DEFAULTS, crash, type EngineSettings } from '../../helpers/engine.js'
import { startRedis } from '../../helpers/redis.js'
import { skipUnless } from '../../helpers/requires.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

/** One empty spool of an engine, and every role that the contracts have for it. */
export interface TestSpool {
  readonly enqueuer: Enqueuer
  /** Not opened yet. */
  feed(): Feed
  /** Each as of a worker of its own. */
  claims(settings?: EngineSettings): Promise<Claims>
  upkeep(): Upkeep
  /** Whether a claim expires unless it is renewed, even while its worker lives. */
  readonly isLeasing: boolean
  /** Where a ref is a ticket: one for a task of this name, which waits for a slot. */
  slotTicket?(task: string): Ref
  /**
   * The worker of these claims is gone; `ref` is what it held.
   *
   * @param lastRun what its master says of that
   * @returns what the next claim is to be told: nothing if it finds it with the task
   */
  died(claims: Claims, ref: Ref, lastRun?: LastRun): Promise<LastRun | undefined>
}

export interface TestSpoolOptions {
  /** How long a claim lasts if it is not renewed; only engines whose claims are leases use it. */
  readonly leaseMs?: number
}

const missing = skipUnless('redis-server')
const server = missing === false ? startRedis() : undefined
let libraries: Libraries | undefined
before(async () => {
  await server?.ready()
  libraries = await loadLibraries()
})
it('a Redis is there for its engine', { skip: missing }, () => {})
let spools = 0

function redisSpool({ leaseMs }: TestSpoolOptions = {}): TestSpool {
  assert.ok(server !== undefined)
  const address = parseRedisAddress(server.address(`spool${spools++}`))
  const opened: Connection[] = []
  const connect = () => {
    assert.ok(libraries !== undefined)
    const connection = new Connection(address, libraries, leaseMs)
    opened.push(connection)
    return connection
  }
  after(() => {
    for (const connection of opened) connection.close()
  })
  const key = (type: string) => `bull:${address.queue}:${type}`
  return {
    enqueuer: new RedisEnqueuer(connect()),
    feed: () => new RedisFeed(connect(), connect()),
    claims: async settings => new RedisClaims(connect(), { ...CLAIMS_DEFAULTS, ...settings }),
    upkeep: () => new RedisUpkeep(connect()),
    slotTicket: task => ticketRef({ task, isSifting: false }, 'test'),
    isLeasing: true,
    /** Its lock expires, and whoever looks next finds that. */
    async died(_claims, _ref, lastRun) {
      const active = await server.client.lrange(key('active'), 0, -1)
      assert.ok(active.length > 0)
      for (const id of active) {
        const record = JSON.parse((await server.client.hget(key(id), 'progress')) ?? '{}')
        await server.client.hset(key(id), 'progress', JSON.stringify({ ...record, lastRun }))
        await server.client.del(`${key(id)}:lock`)
        await server.client.sadd(key('stalled'), id)
      }
      await until('the jobs are back', async () => {
        await server.client.del(key('stalled-check'))
        const found = await connect().use(queue => queue.getBackend().moveStalledJobsToWait())
        return found.length > 0 || (await server.client.llen(key('active'))) === 0
      })
      return undefined
    },
  }
}

/** The conformance suites run over each of these. They await every answer, and take no ref for a name. */
export const ENGINES: Readonly<Record<string, (options?: TestSpoolOptions) => TestSpool>> = {
  ...(missing === false ? { redis: redisSpool } : {}),
  directory() {
    const spool = spoolDirectory()
    const { rules, frequencyMs } = CLAIMS_DEFAULTS
    return {
      enqueuer: new DirectoryEnqueuer(spool, false),
      feed: () => new DirectoryFeed({ spool, rules, order: 'age', frequencyMs, watch: 'off' }, new Emitter()),
      claims: settings => openDirectoryClaims({ ...CLAIMS_DEFAULTS, spool, ...settings }),
      upkeep: () => new DirectoryUpkeep(spool),
      isLeasing: false,
      async died(_, ref, lastRun) {
        crash(spool, ref)
        return lastRun
      },
    }
  },
  memory(options) {
    const spool = new MemorySpool('memory:test', options)
    return {
      enqueuer: new MemoryEnqueuer(spool),
      feed: () => new MemoryFeed(spool, CLAIMS_DEFAULTS.frequencyMs),
      claims: async settings => new MemoryClaims(spool, { ...CLAIMS_DEFAULTS, ...settings }),
      upkeep: () => new MemoryUpkeep(spool),
      isLeasing: true,
      async died(claims, _, lastRun) {
        assert.ok(claims instanceof MemoryClaims)
        claims.abandon()
        return lastRun
      },
    }
  },
}

/** The refs of all tasks that are due, as a master gets them. */
export async function refsOf(spool: TestSpool): Promise<readonly Ref[]> {
  const feed = spool.feed()
  await feed.open(() => {})
  const refs = feed.take(1000)
  feed.close()
  return refs
}

export async function claimOf(claims: Claims, ref: Ref, lastRun?: LastRun): Promise<Claim> {
  const claim = await claims.claim(ref, lastRun)
  assert.ok(!('kind' in claim), 'kind' in claim ? `${claim.kind}: ${claim.detail}` : '')
  return claim
}

/** For a task that an engine may have delayed. */
export function claimOnceDue(claims: Claims, ref: Ref): Promise<Claim> {
  return until('it is due', async () => {
    const claim = await claims.claim(ref)
    return 'kind' in claim ? undefined : claim
  })
}

/** A claim whose run has begun. */
export async function beginOf(claims: Claims, ref: Ref, company: Company = 'alone'): Promise<Claim> {
  const claim = await claimOf(claims, ref)
  assert.equal(await claims.begin(claim, company), undefined)
  return claim
}

export async function refusalOf(claims: Claims, ref: Ref) {
  const report = await claims.claim(ref)
  assert.ok('kind' in report, 'it was claimed')
  return report
}
