import { messageOf, SpooldError } from '../../base/errors.js'
import { parseRedisAddress, type RedisAddress } from '../../formats/protocol/redis-address.js'
import { CONNECT_TIMEOUT_MS, inTime, openClient } from './client.js'
import { FewWrites } from './few-writes.js'
import {
  type Client,
  type Cluster,
  type JobJson,
  type Libraries,
  loadLibraries,
  type Queue,
  type Redis,
  type RedisCommander,
} from './libraries.js'
import { commandOf, defineScripts, type ScriptName } from './scripts.js'

/** A cluster's connections keep the process alive, so they are closed after this time without use. */
const CLUSTER_IDLE_MS = 500
/** How long the clock of Redis is calculated before Redis is asked for it again. */
const CLOCK_VALID_MS = 30_000

interface Opened {
  readonly queue: Queue
  readonly client: Client
}

// The file is long because everything that is asked of Redis passes here.
/**
 * A connection to the Redis of one spool, and its queues. The first operation opens it. While nothing is going on and nobody
 * wants to stay connected, it keeps neither its process nor itself alive.
 */
export class Connection {
  readonly address: RedisAddress
  readonly lockMs: number
  /** How often claims are looked for that have ended because nobody renewed them. */
  readonly checkMs: number
  /** The commands of a Redis, or of a cluster. */
  readonly redis: RedisCommander & Pick<Redis, 'pipeline'>
  readonly #client: Redis | Cluster
  readonly #holds: boolean
  readonly #newQueue: (name: string) => Queue
  readonly #libraries: Libraries
  readonly #queues = new Map<string, Promise<Opened>>()
  /** The queues of `#queues` that are open. */
  readonly #opened = new Map<string, Opened>()
  readonly #fewWrites = new FewWrites()
  /** How many operations are going on, if they hold, plus how many callers want to stay connected. */
  #interest = 0
  #lastError: Error | undefined
  /** Called at the next connection, or when there will be none. */
  readonly #waiting = new Set<() => void>()
  #isClosed = false
  #idle: NodeJS.Timeout | undefined
  #clock: { readonly redisMs: number; readonly atMs: number } | undefined

  /** @throws SpooldError ADDRESS_INVALID, LIBRARY_MISSING */
  static async open(address: string, holds = true): Promise<Connection> {
    const parsed = parseRedisAddress(address)
    return new Connection(parsed, await loadLibraries(), parsed.lockMs, holds)
  }

  /**
   * @param lockMs how long a claim lasts if it is not renewed
   * @param holds true: an operation keeps its process alive until Redis has answered; false: only callers that stay connected do
   */
  constructor(address: RedisAddress, libraries: Libraries, lockMs = address.lockMs, holds = true) {
    this.address = address
    this.lockMs = lockMs
    this.#libraries = libraries
    this.#client = openClient(address, libraries, () => this.#interest > 0)
    this.#holds = holds || this.#client.isCluster
    this.redis = this.#client
    this.#client.on('error', error => {
      // what is sent although the password was refused fails with NOAUTH, which hides why
      const isRefused = this.#lastError?.message.startsWith('WRONGPASS') && error.message.startsWith('NOAUTH')
      if (isRefused !== true && !HIDES.test(error.message)) this.#lastError = error
    })
    this.#client.on('ready', () => {
      this.#lastError = undefined
      this.#tellWaiting()
    })
    // a cluster's client that was disconnected while somebody came back
    if (this.#client.isCluster)
      this.#client.on('close', () => void (this.#waiting.size > 0 && this.#connect()))
    this.#client.on('connect', () => {
      // what Redis has answered to the last connection says more
      if (this.#lastError?.name !== 'ReplyError') this.#lastError = new Error(unreadyBecause(this.#client))
      if (this.#interest === 0) this.#mayEnd()
    })
    this.checkMs = lockMs === address.lockMs ? address.checkMs : Math.ceil(lockMs / 3)
    const options = {
      ...{ connection: this.#client, prefix: address.prefix, skipVersionCheck: true },
      skipMetasUpdate: true, // whoever only reads writes nothing, so that a replica can be read
      lockDuration: lockMs,
    }
    this.#newQueue = name => new libraries.Queue(name, options)
  }

  #queueOf(name: string): Promise<Opened> {
    let queue = this.#queues.get(name)
    if (queue === undefined) {
      queue = this.#open(name)
      this.#queues.set(name, queue)
      queue.catch(() => this.#queues.delete(name)) // the connection was lost meanwhile
    }
    return queue
  }

  async #open(name: string): Promise<Opened> {
    const queue = this.#newQueue(name).on('error', () => {}) // operations fail with the error
    const client = await queue.getBackend().client
    defineScripts(this.#client)
    const opened = { queue, client }
    this.#opened.set(name, opened)
    return opened
  }

  /** The spool's name, for people. */
  get name(): string {
    return this.address.name
  }

  get isReady(): boolean {
    return this.#client.status === 'ready'
  }

  /** Why there is no connection, for people. */
  get fault(): string {
    return `no connection to ${this.name}: ${whyUnconnected(this.address, this.#lastError)}`
  }

  /** Returns a key of a queue, as BullMQ makes them. @param queue default: the spool's own */
  key(type: string, queue = this.address.queue): string {
    return `${this.address.prefix}:${queue}:${type}`
  }

  /** Returns the job as BullMQ's operations want it. */
  jobOf(queue: Queue, json: JobJson) {
    return this.#libraries.Job.fromJSON(queue, json, json.id)
  }

  /** Returns the job in the reply of a BullMQ script that was to pull one; undefined if there is none. */
  jobIn(reply: unknown): JobJson | undefined {
    const [json, id] = Array.isArray(reply) ? this.#libraries.raw2NextJobData(reply) : []
    return json === null || json === undefined ? undefined : { ...json, id }
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
   * @param name of the queue; default: the spool's own
   * @throws SpooldError REDIS_UNREACHABLE if there is no connection, so that nothing was sent; else what the operation throws
   */
  use<T>(
    operation: (queue: Queue, client: Client) => Promise<T>,
    patienceMs = CONNECT_TIMEOUT_MS,
    name = this.address.queue,
  ): Promise<T> {
    const opened = this.#opened.get(name)
    if (opened === undefined || !this.isReady || this.#client.isCluster)
      return this.#useLater(operation, patienceMs, name)
    this.#fewWrites.begin(streamOf(this.#client))
    if (!this.#holds) return operation(opened.queue, opened.client)
    this.#hold()
    return operation(opened.queue, opened.client).then(this.#succeeded, this.#failed) // `finally` makes more promises
  }

  readonly #succeeded = <T>(result: T): T => {
    this.#letGo()
    return result
  }

  readonly #failed = (error: unknown): never => {
    this.#letGo()
    throw error
  }

  async #useLater<T>(
    operation: (queue: Queue, client: Client) => Promise<T>,
    patienceMs: number,
    name: string,
  ): Promise<T> {
    const leave = this.stay()
    try {
      await this.#connected(patienceMs)
      const { queue, client } = await this.#queueOf(name)
      if (!this.#holds) leave()
      return await (this.#client.isCluster ? inTime(operation(queue, client)) : operation(queue, client))
    } finally {
      leave()
    }
  }

  /**
   * Resolves when there is a connection.
   *
   * @param givenUp fires when nobody waits for the connection any more
   * @throws SpooldError REDIS_UNREACHABLE, at once when `givenUp` fires
   */
  async reach(givenUp?: AbortSignal): Promise<void> {
    this.#hold()
    try {
      await this.#connected(CONNECT_TIMEOUT_MS, givenUp)
    } finally {
      this.#letGo()
    }
  }

  /** Calls one of spoold's own scripts with its keys, then its arguments. */
  run(name: ScriptName, ...args: ReadonlyArray<string | number>): Promise<unknown> {
    return this.use((_queue, client) => client.runCommand(commandOf(name), [...args]))
  }

  /** The time by the clock of Redis, which all machines share; epoch ms. */
  async nowMs(patienceMs?: number): Promise<number> {
    const nowMs = this.knownNowMs
    if (nowMs !== undefined) return nowMs
    const asked = (_: Queue, client: Client) => client.runCommand(commandOf('now'), [this.key('meta')])
    const redisMs = Number(await this.use(asked, patienceMs))
    this.#clock = { redisMs, atMs: performance.now() }
    return redisMs
  }

  /** The time by the clock of Redis; undefined if Redis has to be asked for it. */
  get knownNowMs(): number | undefined {
    if (this.#clock === undefined) return undefined
    const { redisMs, atMs } = this.#clock
    const agoMs = performance.now() - atMs
    return agoMs > CLOCK_VALID_MS ? undefined : redisMs + agoMs
  }

  /** Ends the connection. What waits for it fails at once, and so does everything that follows. */
  close(): void {
    this.#isClosed = true
    this.#interest = 0
    clearTimeout(this.#idle)
    this.#client.disconnect()
    this.#tellWaiting()
  }

  #tellWaiting(): void {
    for (const told of this.#waiting) told()
    this.#waiting.clear()
  }

  #hold(): void {
    if (this.#interest++ > 0) return
    clearTimeout(this.#idle)
    if (!this.#client.isCluster) streamOf(this.#client)?.ref()
  }

  #letGo(): void {
    if (--this.#interest <= 0) this.#mayEnd()
  }

  /** Lets the process end, because nobody is interested in the connection. */
  #mayEnd(): void {
    if (!this.#client.isCluster) return void streamOf(this.#client)?.unref()
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#client.disconnect(), CLUSTER_IDLE_MS)
  }

  /**
   * Connects, unless that is in progress. After a disconnection, a cluster's client has the status `close`, because each of its
   * nodes reports once more that it is gone.
   */
  #connect(): void {
    const { status, isCluster } = this.#client
    if (status === 'wait' || status === 'end' || (isCluster && status === 'close'))
      this.#client.connect().catch(() => {}) // an event reports it, too
  }

  /** Resolves when there is a connection. @param givenUp fires when nobody waits for it any more */
  async #connected(patienceMs: number, givenUp?: AbortSignal): Promise<void> {
    if (this.isReady) return
    const unreachable = () => new SpooldError('REDIS_UNREACHABLE', this.fault)
    if (this.#isClosed || givenUp?.aborted === true) throw unreachable()
    this.#connect()
    await new Promise<void>((resolve, reject) => {
      const told = () => {
        clearTimeout(patience)
        givenUp?.removeEventListener('abort', told)
        this.#waiting.delete(told)
        if (this.isReady) resolve()
        else reject(unreachable())
      }
      const patience = setTimeout(told, patienceMs)
      givenUp?.addEventListener('abort', told)
      this.#waiting.add(told)
    })
  }
}

/** Returns, for people, why a client that is connected may not be ready. A cluster's client drops nodes without an address. */
function unreadyBecause(client: Redis | Cluster): string {
  return 'nodes' in client && client.nodes().length === 0
    ? 'no node of the cluster names its address (cluster-announce-ip)'
    : `it is loading its data set, ${CROWDED}, or does not answer`
}

/**
 * Returns the stream of a connection; undefined while there is no connection, and for a cluster. After a socket has ended, Node
 * keeps each `ref` and `unref` for its next connection.
 */
function streamOf(client: Redis | Cluster) {
  const stream = 'stream' in client ? (client.stream as Redis['stream'] | undefined) : undefined
  return stream?.destroyed === true ? undefined : stream
}

/** An error of a client. `lastNodeError` is what the last node of a cluster has said. */
type ClientError = Error & { readonly lastNodeError?: Error | null }

/** Matches what commands fail with because of an earlier error, which says why. */
const HIDES = /^(Stream isn't writeable|Reached the max retries per request limit)/
const OF_SENTINELS = /^All sentinels are unreachable\..* Last error: /
const OF_OPENSSL = /^(?:[0-9A-F]+:)?error:[0-9A-F]{8}:[^:]*:[^:]*:([^:]+).*$/s
/** Redis says this before it is asked anything, and ioredis does not hear it. */
const CROWDED = 'lets no more clients in (maxclients)'
const UNSAID = /^Connection is closed\.?$/

/** Returns, for people, why there is no connection. @param error the last one that the client has told */
function whyUnconnected({ isTls }: RedisAddress, error: ClientError | undefined): string {
  const cause = error?.lastNodeError ?? error
  const told = cause === undefined ? '' : messageOf(cause).replace(OF_OPENSSL, '$1')
  const said = told.replace(OF_SENTINELS, '')
  if (said === '' || UNSAID.test(said))
    return isTls ? 'nothing answers with TLS and a trusted certificate' : 'nothing answers without TLS'
  if (said.endsWith('ECONNRESET'))
    return `${said}, as of a port that wants ${isTls ? 'a certificate (?cert= and ?key=)' : 'TLS (rediss:)'}, or it ${CROWDED}`
  if (said.endsWith('EPIPE')) return `${said}, as if it ${CROWDED}`
  return said === told ? said : `its sentinels: ${said}`
}
