import { counted } from '../../base/counted.js'
import { SpooldError, toError } from '../../base/errors.js'
import { Queue } from '../../base/queue.js'
import type { Request, Stored } from '../../base/task/request.js'
import { type Address, formatAddress, parseAddress } from '../../formats/protocol/address.js'
import { HEADER_BYTES, KEEP_OPEN, MODIFIER2_OFFSET } from '../../formats/protocol/header.js'
import { encodePacket } from '../../formats/protocol/packet.js'
import { BODY_LENGTH_KEY } from '../../formats/protocol/request-vars.js'
import { lastValue, parseVars, toPairs } from '../../formats/protocol/vars.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import { SocketConnection } from './socket-connection.js'

export interface SocketClientOptions {
  /** How long connecting may take, in ms. Default: 5,000. */
  readonly connectTimeoutMs?: number
  /** How long a reply may take after the last byte was sent, in ms. Default: 30,000. */
  readonly timeoutMs?: number
  /** How long an idle connection stays open, in ms; keep it below the daemon's socket-keepalive-timeout. Default: 30,000. */
  readonly idleMs?: number
  /** The maximum size of a body, in bytes; a stream is collected up to this size. Default: 64 MiB. */
  readonly maxBodyBytes?: number
}

/** The maximum number of connections to a server that accepts one packet per connection. */
const SINGLE_CONNECTIONS = 32
const DEFAULTS = { connectTimeoutMs: 5000, timeoutMs: 30_000, idleMs: 30_000, maxBodyBytes: 64 * 1024 * 1024 }

/**
 * The `socket` of a daemon, or of a uWSGI, as a destination of tasks. It connects on demand. All tasks share one connection,
 * which closes by itself when it is idle; if it breaks, the next task opens another one. With a uWSGI, it opens a connection per
 * packet.
 */
export class SocketDestination implements Enqueuer {
  readonly name: string
  readonly #address: Address
  readonly #options: Required<SocketClientOptions>
  /** The shared connection; undefined if the server turned out to accept one packet per connection. */
  #shared: Promise<SocketConnection | undefined> | undefined
  /** How many more single-packet connections may be opened. Tasks that wait for one are in `#queue`. */
  #slots = SINGLE_CONNECTIONS
  readonly #queue = new Queue<() => void>()

  /** @throws SpooldError ADDRESS_INVALID */
  constructor(address: string, options: SocketClientOptions = {}) {
    this.name = address
    this.#address = parseAddress(address)
    this.#options = { ...DEFAULTS, ...options }
  }

  /**
   * Stores a task. The `path` of the result is the address of the server, because the protocol does not return the file's name.
   *
   * @throws SpooldError REQUEST_INVALID before anything is sent
   * @throws SpooldError SOCKET_UNREACHABLE, SOCKET_REFUSED, SOCKET_BODYLESS: nothing was stored
   * @throws SpooldError SOCKET_UNANSWERED: the task may have been stored
   */
  async store(request: Request): Promise<Stored> {
    if (request.id !== undefined) throw notOverSocket('an id', 'id')
    await this.#send(request)
    return { path: formatAddress(this.#address), isDuplicate: false }
  }

  /**
   * Sends the packets one after the other, without waiting for the replies.
   *
   * @throws SpooldError REQUEST_INVALID for `isAllOrNothing`
   */
  async storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<StoreResult[]> {
    if (isAllOrNothing) throw notOverSocket('all or nothing', 'allOrNothing')
    return Promise.all(
      requests.map(request =>
        this.store(request).then(
          (stored): StoreResult => ({ stored }),
          (error: unknown): StoreResult => ({ error: toError(error) }),
        ),
      ),
    )
  }

  async #send(request: Request): Promise<void> {
    const body = await collect(request.body, this.#options.maxBodyBytes)
    const packet = packetOf(request, body.length)
    const connection = await this.#share()
    if (connection === undefined) return this.#sendAlone(packet, body)
    packet.writeUInt8(KEEP_OPEN, MODIFIER2_OFFSET)
    await connection.request(packet, body)
  }

  async #share(): Promise<SocketConnection | undefined> {
    this.#shared ??= this.#open()
    const shared = this.#shared
    try {
      const connection = await shared
      if (connection?.isOpen !== false) return connection
    } catch (error) {
      if (this.#shared === shared) this.#shared = undefined
      throw error
    }
    if (this.#shared === shared) this.#shared = undefined // the connection was closed in the meantime: open another one
    return this.#share()
  }

  async #open(): Promise<SocketConnection | undefined> {
    const connection = await SocketConnection.open(this.#address, this.#options)
    return (await connection.staysOpen()) ? connection : undefined
  }

  /** Sends a packet over a connection of its own, as a uWSGI requires. @throws SpooldError SOCKET_BODYLESS */
  async #sendAlone(packet: Buffer, body: Buffer): Promise<void> {
    if (body.length > 0)
      throw new SpooldError(
        'SOCKET_BODYLESS',
        `${formatAddress(this.#address)} accepts one packet per connection and no bodies, as uWSGI does; this task has a body of ${counted(body.length, 'byte')}`,
        { details: { bytes: body.length } },
      )
    if (this.#slots > 0) this.#slots--
    else await new Promise<void>(go => this.#queue.push(go))
    try {
      const connection = await SocketConnection.open(this.#address, this.#options)
      await connection.request(packet).finally(() => connection.end())
    } finally {
      const next = this.#queue.pop()
      if (next === undefined) this.#slots++
      else next()
    }
  }
}

/** Returns the packet to be sent. The protocol has only keys, so the other fields of the request become keys. */
function packetOf({ packet, priority, atSeconds }: Request, bodyBytes: number): Buffer {
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  if ('fault' in vars) throw new SpooldError('PACKET_MALFORMED', vars.fault)
  const has = (key: string) => lastValue(vars, key) !== undefined
  if (has(BODY_LENGTH_KEY))
    throw new SpooldError(
      'REQUEST_INVALID',
      `the key ${BODY_LENGTH_KEY} announces a body on the wire, and cannot be part of a task`,
      { details: { key: BODY_LENGTH_KEY } },
    )
  const pairs = toPairs(vars)
  const add = (key: string, value: string | number) =>
    pairs.push([Buffer.from(key), Buffer.from(String(value))])
  if (priority !== undefined && !has('priority')) add('priority', priority)
  if (atSeconds !== undefined && !has('at')) add('at', atSeconds)
  if (bodyBytes > 0) add(BODY_LENGTH_KEY, bodyBytes)
  return encodePacket(pairs)
}

/**
 * Returns the whole body, because the protocol needs its length first.
 *
 * @throws SpooldError REQUEST_INVALID beyond `limit` bytes
 */
async function collect(body: Request['body'], limit: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body === undefined ? [] : Buffer.isBuffer(body) ? [body] : body) {
    bytes += chunk.length
    if (bytes > limit)
      throw new SpooldError(
        'REQUEST_INVALID',
        `the body takes more than ${limit} bytes, the limit over the network`,
        { details: { key: 'body', bytes, limit } },
      )
    chunks.push(chunk)
  }
  return chunks.length === 1 && Buffer.isBuffer(chunks[0]) ? chunks[0] : Buffer.concat(chunks)
}

export function notOverSocket(what: string, key: string): SpooldError {
  return new SpooldError(
    'REQUEST_INVALID',
    `${what} needs a spool directory; it is not available over a socket`,
    { details: { key } },
  )
}
