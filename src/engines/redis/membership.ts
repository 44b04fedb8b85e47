import { randomUUID } from 'node:crypto'
import { endOf } from '../../base/clock.js'
import { hasFields } from '../../base/json-guard.js'
import type { Member, MemberFacts } from '../../base/task/member.js'
import { obeyCancels } from './cancel-orders.js'
import type { Connection } from './connection.js'
import { jsonIn } from './task-job.js'

/** How often a member looks for orders. */
const LOOK_MS = 1000
/** How often a member says that it is there, and how long that is believed. */
const TELL_MS = 5000
const BELIEVED_MS = 16_000
/** How long a process that ends waits until it has said so. */
const LEAVE_MS = 500

/** Returns the key of the members' hash. The field of each is a random word; its value has the time, by the clock of Redis. */
function keyOf(connection: Connection): string {
  return connection.key('spoold:members')
}

/** A process that runs tasks of a spool. It says so in Redis, and does there what people on other machines ask for. */
export class Membership {
  readonly #connection: Connection
  readonly #member: Member
  readonly #id = randomUUID()
  readonly #timer: NodeJS.Timeout
  #toldAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined
  readonly #left = new AbortController()

  constructor(connection: Connection, member: Member) {
    this.#connection = connection
    this.#member = member
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
    this.#look()
  }

  async leave(): Promise<void> {
    if (this.#left.signal.aborted) return
    this.#left.abort()
    clearInterval(this.#timer)
    if (!this.#connection.isReady) return // the member is not believed for long
    const { redis } = this.#connection
    const gone = (async () => {
      await this.#looking
      await redis.hdel(keyOf(this.#connection), this.#id)
    })()
    await endOf(gone, LEAVE_MS)
  }

  /** Says that the member is there, and looks for orders. While Redis is away, there is nobody to tell. */
  #look(): void {
    if (this.#looking !== undefined) return
    const looking = this.#connection
      .reach(this.#left.signal)
      .then(() => Promise.all([this.#tell(), obeyCancels(this.#connection, this.#member)]))
    this.#looking = looking
      .then(
        () => {},
        () => {},
      )
      .finally(() => {
        this.#looking = undefined
      })
  }

  async #tell(): Promise<void> {
    if (performance.now() - this.#toldAt < TELL_MS) return
    const { redis } = this.#connection
    const key = keyOf(this.#connection)
    const atMs = Math.floor(await this.#connection.nowMs())
    const text = JSON.stringify({ ...this.#member.facts(), atMs })
    await this.#connection.use(() => redis.hset(key, this.#id, text))
    this.#toldAt = performance.now()
    for (const [id, { atMs: before }] of await membersIn(this.#connection))
      if (before < atMs - BELIEVED_MS) await this.#connection.use(() => redis.hdel(key, id))
  }
}

/** Returns the members that have said lately that they are there, the oldest first. */
export async function readMembers(connection: Connection): Promise<MemberFacts[]> {
  const nowMs = await connection.nowMs()
  const found = (await membersIn(connection)).filter(([, { atMs }]) => atMs > nowMs - BELIEVED_MS)
  return found
    .map(([, { atMs: _, ...facts }]) => facts)
    .sort((a, b) => a.startedAtMs - b.startedAtMs || a.pid - b.pid)
}

type Told = MemberFacts & { readonly atMs: number }

async function membersIn(connection: Connection): Promise<Array<[id: string, told: Told]>> {
  const found = await connection.use(() => connection.redis.hgetall(keyOf(connection)))
  return Object.entries(found).map(([id, text]) => [id, toldIn(text)])
}

/** Stands for an entry of another version, or a stranger's. It is removed as a member that is gone. */
const UNKNOWN: Told = {
  ...{ host: '', pid: 0, startedAtMs: 0, isDaemon: false, wanted: 0, present: 0, running: 0 },
  ...{ isHalted: false, controls: null, atMs: 0 },
}

function toldIn(text: string): Told {
  const value = jsonIn(text)
  const isTold = hasFields(
    value,
    {
      ...{ host: 'text', pid: 'count', startedAtMs: 'time' },
      ...{ wanted: 'count', present: 'count', running: 'count', atMs: 'time' },
    },
    { isDaemon: 'flag', isHalted: 'flag' },
  )
  if (!isTold) return UNKNOWN
  const told = { ...UNKNOWN, ...(value as Told) }
  return typeof told.controls === 'string' ? told : { ...told, controls: null }
}
