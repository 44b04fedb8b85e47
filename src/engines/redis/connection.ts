import { messageOf, SpooldError } from '../../base/errors.js'
import { parseRedisAddress, type RedisAddress } from '../../protocol/redis-address.js'
import {
  type JobJson,
  type Libraries,
  loadLibraries,
  type Queue,
  type Redis,
  type RedisOptions,
} from './libraries.js'
import { commandOf, SCRIPTS, type ScriptName } from './scripts.js'

/** A claim is over this long after it was renewed last: a machine that died is noticed after that. */
const LOCK_MS = 15_000
const CONNECT_TIMEOUT_MS = 5000
/** A reply takes at most this long; a blocking read is shorter. */
const REPLY_TIMEOUT_MS = 10_000
const RECONNECT_CAP_MS = 1000
const CLOCK_VALID_MS = 30_000
/** Whoever crashes is counted by us; BullMQ is to give no job up. */
const NO_LIMIT = 1_000_000_000

/** What BullMQ was asked to do with a job, and could not: a number of its scripts. */
export function refusalCode(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'number' ? error.code : undefined
}

/**
 * A connection to the Redis of one spool, and its queue. It is opened by the first operation, and keeps neither its process
 * alive nor itself while nothing is going on and nobody is interested.
 */
export class Connection {
  readonly address: RedisAddress
  readonly lockMs: number
  readonly redis: Redis
  readonly #newQueue: (name: string) => Queue
  readonly #Job: Libraries['Job']
  readonly #queues = new Map<string, Promise<Queue>>()
  /** Operations that are going on, and those who want to stay connected. */
  #interest = 0
  #lastError: Error | undefined
  #clock: { readonly redisMs: number; readonly atMs: number } | undefined

  /** @throws SpooldError ADDRESS_INVALID, LIBRARY_MISSING */
  static async open(address: string): Promise<Connection> {
    return new Connection(parseRedisAddress(address), await loadLibraries())
  }

  /** @param lockMs how long a claim lasts if it is not renewed */
  constructor(address: RedisAddress, libraries: Libraries, lockMs = LOCK_MS) {
    this.address = address
    this.lockMs = lockMs
    this.#Job = libraries.Job
    this.redis = new libraries.Redis(this.#options())
    this.redis.on('error', error => {
      this.#lastError = error
    })
    this.redis.on('connect', () => {
      if (this.#interest === 0) this.redis.stream.unref()
    })
    const stalledMs = Math.ceil(lockMs / 3)
    const options = {
      ...{ connection: this.redis, skipVersionCheck: true },
      ...{ lockDuration: lockMs, stalledInterval: stalledMs, maxStalledCount: NO_LIMIT },
    }
    this.#newQueue = name => new libraries.Queue(name, options)
  }

  /** A command waits for nothing: without a connection it fails, and it is never sent twice. */
  #options(): RedisOptions {
    const { host, port, database: db, username, password, isTls } = this.address
    return {
      ...{ host, port, db, family: 0, connectionName: 'spoold', lazyConnect: true },
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
      ...(isTls ? { tls: { servername: host } } : {}),
      ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 },
      ...{ connectTimeout: CONNECT_TIMEOUT_MS, commandTimeout: REPLY_TIMEOUT_MS, keepAlive: 10_000 },
      retryStrategy: times => (this.#interest > 0 ? pauseMs(times) : null),
    }
  }

  #queueOf(name: string): Promise<Queue> {
    let queue = this.#queues.get(name)
    if (queue === undefined) {
      queue = this.#open(name)
      this.#queues.set(name, queue)
      queue.catch(() => this.#queues.delete(name)) // the connection was lost meanwhile
    }
    return queue
  }

  async #open(name: string): Promise<Queue> {
    const queue = this.#newQueue(name).on('error', () => {}) // operations fail with it
    const client = await queue.getBackend().client
    for (const [script, { keys, lua }] of Object.entries(SCRIPTS))
      client.defineCommand(commandOf(script as ScriptName), { numberOfKeys: keys, lua })
    return queue
  }

  /** For people. */
  get name(): string {
    return this.address.name
  }

  get isReady(): boolean {
    return this.redis.status === 'ready'
  }

  /** Why there is no connection, for people. */
  get fault(): string {
    return `no connection to ${this.name}${this.#lastError === undefined ? '' : `: ${messageOf(this.#lastError)}`}`
  }

  /** A key of a queue, as BullMQ makes them. @param queue the spool's own unless given */
  key(type: string, queue = this.address.queue): string {
    return `bull:${queue}:${type}`
  }

  /** The job as BullMQ's operations want it. */
  jobOf(queue: Queue, json: JobJson) {
    return this.#Job.fromJSON(queue, json, json.id)
  }

  /** Stays connected until the returned function is called. */
  stay(): () => void {
    this.#hold()
    let isHeld = true
    return () => {
      if (isHeld) this.#letGo()
      isHeld = false
    }
  }

  /**
   * Runs an operation on a queue.
   *
   * @param patienceMs how long to wait for a connection
   * @param name of the queue; the spool's own unless given
   * @throws SpooldError REDIS_UNREACHABLE if there is no connection, so that nothing was sent; else what the operation throws
   */
  async use<T>(
    operation: (queue: Queue) => Promise<T>,
    patienceMs = CONNECT_TIMEOUT_MS,
    name = this.address.queue,
  ): Promise<T> {
    this.#hold()
    try {
      await this.#connected(patienceMs)
      return await operation(await this.#queueOf(name))
    } finally {
      this.#letGo()
    }
  }

  /** Calls one of our scripts: its keys, then its arguments. */
  run(name: ScriptName, ...args: ReadonlyArray<string | number>): Promise<unknown> {
    return this.use(async queue => (await queue.getBackend().client).runCommand(commandOf(name), [...args]))
  }

  /** The time by the clock of Redis, which all machines share; epoch ms. */
  async nowMs(): Promise<number> {
    const { redisMs, atMs } = await this.#clockNow()
    return redisMs + performance.now() - atMs
  }

  async #clockNow() {
    if (this.#clock === undefined || performance.now() - this.#clock.atMs > CLOCK_VALID_MS) {
      const [seconds, microseconds] = await this.use(() => this.redis.time())
      this.#clock = { redisMs: Number(seconds) * 1000 + Number(microseconds) / 1000, atMs: performance.now() }
    }
    return this.#clock
  }

  close(): void {
    this.#interest = 0
    this.redis.disconnect()
  }

  #hold(): void {
    if (this.#interest++ === 0 && !this.#isConnecting) this.redis.stream?.ref()
  }

  #letGo(): void {
    if (--this.#interest <= 0 && !this.#isConnecting) this.redis.stream?.unref()
  }

  /** A socket without a handle adds a listener for each call. */
  get #isConnecting(): boolean {
    return this.redis.stream?.connecting === true
  }

  async #connected(patienceMs: number): Promise<void> {
    const { redis } = this
    if (redis.status === 'ready') return
    if (redis.status === 'wait' || redis.status === 'end') redis.connect().catch(() => {}) // an event says it, too
    let isOver = () => {}
    try {
      await new Promise<void>((resolve, reject) => {
        const patience = setTimeout(
          () => reject(new SpooldError('REDIS_UNREACHABLE', this.fault)),
          patienceMs,
        )
        const ready = () => resolve()
        redis.once('ready', ready)
        isOver = () => {
          clearTimeout(patience)
          redis.off('ready', ready)
        }
      })
    } finally {
      isOver()
    }
  }
}

/** With jitter, so that the workers of many machines do not come back in one moment. */
export function pauseMs(times: number): number {
  return Math.min(RECONNECT_CAP_MS, 50 * 2 ** Math.min(times, 10)) * (0.5 + Math.random() / 2)
}
