import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import type { Redis } from 'ioredis'
import { Emitter } from '#src/base/events/emitter.js'
import type { LastRun } from '#src/base/task/last-run.js'
import type { Company } from '#src/base/task/outcome.js'
import type { Ref } from '#src/base/task/ref.js'
import type { Claim, WorkerClaims } from '#src/engines/claims.js'
import type { Upkeep } from '#src/engines/contracts/upkeep.js'
import { DirectoryEnqueuer } from '#src/engines/directory/enqueuer.js'
import { DirectoryFeed } from '#src/engines/directory/feed.js'
import { DirectoryTaskStore } from '#src/engines/directory/task-store.js'
import { DirectoryUpkeep } from '#src/engines/directory/upkeep.js'
import type { Enqueuer } from '#src/engines/enqueuer.js'
import type { Source } from '#src/engines/feed.js'
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
import { SpoolQueue } from '#src/engines/redis/queues.js'
import { RedisTaskStore } from '#src/engines/redis/records/task-store.js'
import { ticketRef } from '#src/engines/redis/refs.js'
import { RedisUpkeep } from '#src/engines/redis/upkeep.js'
import { openDirectoryClaims } from '#src/engines/spool/claims/claims.js'
import type { TaskStore } from '#src/engines/task-store.js'
import { parseRedisAddress } from '#src/formats/protocol/redis-address.js'
import { CLAIMS_DEFAULTS, crash, type EngineSettings } from '../../helpers/engine.js'
import { startRedis } from '../../helpers/redis.js'
import { skipUnless } from '../../helpers/requires.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

/** One empty spool of an engine, and every role that the contracts have for it. */
export interface TestSpool {
  readonly enqueuer: Enqueuer
  /** Not opened yet. @param events hears what people are told */
  feed(events?: Emitter): Source
  /** Returns the claims of one more worker. */
  claims(settings?: EngineSettings): Promise<WorkerClaims>
  upkeep(): Upkeep
  /** Whether a claim expires unless it is renewed, even while its worker lives. */
  readonly isLeasing: boolean
  /** Where a ref is a ticket: one for a task of this name, which waits for a slot. */
  slotTicket?(task: string): Ref
  /** Plants what strangers who may write there can leave that is no task. Absent: nobody else can write there. */
  readonly foreign?: Readonly<Record<string, () => unknown>>
  /** Opens the spool as people see it. Absent: nobody sees it. */
  store?(): Promise<TaskStore>
  /**
   * Ends the worker of these claims, which held `ref`.
   *
   * @param lastRun what its master says of that end
   * @returns what the next claim is to be told; undefined if the claim finds that with the task
   */
  died(claims: WorkerClaims, ref: Ref, lastRun?: LastRun): Promise<LastRun | undefined>
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
it('the Redis engine has a Redis to run on', { skip: missing }, () => {})
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
    feed: events => new RedisFeed(connect(), connect(), events),
    claims: async settings => new RedisClaims(connect(), { ...CLAIMS_DEFAULTS, ...settings }),
    upkeep: () => new RedisUpkeep(connect()),
    slotTicket: task => ticketRef({ task, isSifting: false }, 'test'),
    isLeasing: true,
    foreign: foreignJobs(server.client, `bull:${address.queue}:`),
    store: () => RedisTaskStore.open(connect()),
    /** Lets the lock expire, which whoever looks next finds. */
    async died(_claims, _ref, lastRun) {
      const active = await server.client.lrange(key('active'), 0, -1)
      assert.ok(active.length > 0)
      for (const id of active) {
        const record = JSON.parse((await server.client.hget(key(id), 'progress')) ?? '{}')
        await server.client.hset(key(id), 'progress', JSON.stringify({ ...record, lastRun }))
        await server.client.del(`${key(id)}:lock`)
        await new SpoolQueue(connect()).recover(id)
      }
      return undefined
    },
  }
}

/** The engines that the conformance suites run over. The suites await every answer, and take no ref for a name. */
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
      foreign: foreignFiles(spool),
      store: () => DirectoryTaskStore.open(spool, {}),
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

const OLD = 1_000_000_000_000
/** BullMQ's priority 5, of a job that is in front of all tasks. */
const FIRST = 5 * 2 ** 32

function foreignJobs(client: Redis, key: string): NonNullable<TestSpool['foreign']> {
  const byPriority = () => client.zadd(`${key}prioritized`, FIRST, 'evil')
  const hash = (fields: Readonly<Record<string, string>>) => async () => {
    const opts = JSON.stringify({ priority: 5, attempts: 0 })
    await client.hset(`${key}evil`, { name: 'x', data: '{}', opts, timestamp: OLD, priority: 5, ...fields })
    await byPriority()
  }
  const notAJob = (place: () => Promise<unknown>) => async () => {
    await client.set(`${key}evil`, 'x')
    await place()
  }
  return {
    'a job with no packet': hash({}),
    'progress that is a number': hash({ progress: '42' }),
    'progress that is null': hash({ progress: 'null' }),
    'progress that is a text': hash({ progress: '"x"' }),
    'progress that is not JSON': hash({ progress: '{"x":' }),
    'progress that cjson does not read': hash({ progress: '['.repeat(5000) }),
    'progress of other types': hash({
      progress: JSON.stringify({ attempts: 'x', dueAtMs: 'soon', lastError: 5, past: [], policy: 'x' }),
    }),
    'progress with an infinite due time': hash({ progress: '{"dueAtMs":1e999}' }),
    'options that are a list': hash({ opts: '[]' }),
    'options that are null': hash({ opts: 'null' }),
    'options that are not JSON': hash({ opts: '{"x":' }),
    'options of other types': hash({ opts: JSON.stringify({ priority: 'x', delay: {} }) }),
    'a count of starts that is no number': hash({ ats: 'x' }),
    'a count of starts that cannot grow': hash({ ats: '9223372036854775807' }),
    'a timestamp that is no number': hash({ timestamp: 'yesterday' }),
    'a packet without a header': hash({ data: JSON.stringify({ packet: 'AAAA' }) }),
    'a packet that is shorter than it says': hash({ data: JSON.stringify({ packet: 'Ef8AAA==' }) }),
    'data that is deeply nested': hash({ data: '['.repeat(5000) }),
    'an id without a job': byPriority,
    'a key that is no job, among jobs by priority': notAJob(byPriority),
    'a key that is no job, among waiting jobs': notAJob(() => client.lpush(`${key}wait`, 'evil')),
    'a key that is no job, among delayed jobs': notAJob(() =>
      client.zadd(`${key}delayed`, OLD * 4096, 'evil'),
    ),
    'a key that is no job, among active jobs': notAJob(() => client.lpush(`${key}active`, 'evil')),
    'a key that is no job, among failed jobs': notAJob(() => client.zadd(`${key}failed`, OLD, 'evil')),
    'an infinite priority': async () => {
      await hash({})()
      await client.zadd(`${key}prioritized`, '+inf', 'evil')
    },
    'a limited name whose queue is no queue': async () => {
      await client.set(`${key}mwait`, 'x')
      await client.hset(`${key}spoold:limited`, 'x', `${key}m`)
    },
    'an audit that is not JSON': () => client.lpush(`${key}spoold:audit`, '{'),
  }
}

/** Returns what plants foreign files, whose names come before those of tasks. */
function foreignFiles(spool: string): NonNullable<TestSpool['foreign']> {
  const at = (name: string) => join(spool, `uwsgi_spoolfile_on_a_1_${name}_1_1600000000_1`)
  return {
    'a file that is no packet': () => writeFileSync(at('text'), 'x'.repeat(100_000)),
    'a file that is shorter than it says': () => writeFileSync(at('cut'), Buffer.from([17, 0xff, 0, 0])),
    'an empty file': () => writeFileSync(at('empty'), ''),
    'a directory': () => mkdirSync(at('directory')),
    'a link to itself': () => symlinkSync(at('link'), at('link')),
    'a FIFO': () => execFileSync('mkfifo', [at('fifo')]),
  }
}

/** The keys of `TestSpool.foreign`, by engine. */
export const FOREIGN: Readonly<Record<string, readonly string[]>> = {
  redis: server === undefined ? [] : Object.keys(foreignJobs(server.client, '')),
  directory: Object.keys(foreignFiles('')),
  memory: [],
}

/** Returns the refs of all tasks that are due, as a master gets them. */
export async function refsOf(spool: TestSpool): Promise<readonly Ref[]> {
  const feed = spool.feed()
  await feed.open(() => {})
  const refs = feed.take(1000)
  feed.close()
  return refs
}

export async function claimOf(claims: WorkerClaims, ref: Ref, lastRun?: LastRun): Promise<Claim> {
  const claim = await claims.claim(ref, lastRun)
  assert.ok(!('kind' in claim), 'kind' in claim ? `${claim.kind}: ${claim.detail}` : '')
  return claim
}

/** Claims a task that an engine may have delayed, once it is due. */
export function claimOnceDue(claims: WorkerClaims, ref: Ref): Promise<Claim> {
  return until('the task is due', async () => {
    const claim = await claims.claim(ref)
    return 'kind' in claim ? undefined : claim
  })
}

/** Claims a task, and begins its run. */
export async function beginOf(claims: WorkerClaims, ref: Ref, company: Company = 'alone'): Promise<Claim> {
  const claim = await claimOf(claims, ref)
  assert.equal(await claims.begin(claim, company), undefined)
  return claim
}

export async function refusalOf(claims: WorkerClaims, ref: Ref) {
  const report = await claims.claim(ref)
  assert.ok('kind' in report, 'it was claimed')
  return report
}
