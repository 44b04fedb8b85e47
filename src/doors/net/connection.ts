import { counted } from '../../base/counted.js'
import { SpooldError } from '../../base/errors.js'
import type { Request } from '../../base/task/request.js'
import type { Options } from '../../formats/config/option-table.js'
import { type Packet, PacketDecoder } from '../../formats/protocol/decoder.js'
import { KEEP_OPEN, SIGNAL_MODIFIER, SPOOL_MODIFIER } from '../../formats/protocol/header.js'
import { requestFromPacket, type WireRequest } from '../../formats/protocol/request-vars.js'
import type { ByteBudget } from './byte-budget.js'
import type { FairTurns } from './fair-turns.js'
import { type Peer, PeerLost } from './peer.js'
import { ReplyQueue } from './reply-queue.js'

export interface ConnectionActions {
  readonly budget: ByteBudget
  /**
   * Stores a request if that is possible without waiting.
   *
   * @returns true if it did
   * @throws SpooldError if the request is refused
   */
  storeAtOnce(request: Request, spooler: Buffer | undefined): boolean
  /** @param bodyBytes the size of the request's body @throws SpooldError if the request is refused */
  store(request: Request, spooler: Buffer | undefined, bodyBytes: number): Promise<void>
  refused(peer: string, error: unknown): void
  readonly turns: FairTurns
  /** @returns false when there is no room for the signal */
  raise(signal: number): boolean
  unavailable(peer: string, modifier1: number): void
  /** A packet arrived, so this connection is not idle. */
  progressed(connection: Connection): void
}

/** uWSGI's replies (plugins/spooler, plugins/ping, plugins/signal). A signal is accepted even without a handler. */
const STORED = Buffer.of(255, 0, 0, 1)
const REFUSED = Buffer.of(255, 0, 0, 0)
const PONG = Buffer.of(100, 0, 0, 1)

const PING_MODIFIER = 100
/** What one connection may have in flight. */
const WINDOW_REQUESTS = 64
const WINDOW_BYTES = 256 * 1024
const NOTHING = Buffer.alloc(0)

/**
 * What follows a packet. `more`: perhaps another packet; `nothing`: no packet, and no unread input; `unread`: no packet, but
 * input may remain.
 */
type Served = 'more' | 'nothing' | 'unread'

export class Connection {
  readonly #peer: Peer
  readonly #options: Options
  readonly #actions: ConnectionActions
  readonly #decoder: PacketDecoder
  readonly #replies: ReplyQueue
  /** Bytes that are received, but not decoded yet. */
  #rest: Buffer = NOTHING
  #state: ConnectionState = 'open'

  constructor(peer: Peer, options: Options, actions: ConnectionActions) {
    this.#peer = peer
    this.#options = options
    this.#actions = actions
    this.#decoder = new PacketDecoder(options.bufferSize)
    this.#replies = new ReplyQueue(
      reply => peer.write(reply, options.socketTimeoutMs),
      () => peer.close(),
    )
  }

  /** True while the connection is idle: no complete request of it is being stored or answered. */
  get isWaiting(): boolean {
    // a request whose body is arriving waits for its peer, not for the daemon
    const unanswered = this.#replies.size - (this.#isInBody ? 1 : 0)
    return this.#state === 'parting' || (this.#peer.isReading && unanswered === 0)
  }

  get #isInBody(): boolean {
    return this.#state === 'body' || this.#state === 'finishing-body'
  }

  /** Resolves when the connection is closed and every complete request is stored or refused. Never rejects. */
  async serve(): Promise<void> {
    try {
      const end = await this.#serveAll()
      await this.#replies.done()
      this.#become('answered')
      // closing with unread input would reset the connection and lose the last reply
      if (end === 'unread') await this.#peer.part(this.#options.socketTimeoutMs)
    } catch {
      await this.#replies.done()
    }
    this.#become('ended')
    this.#peer.close()
  }

  /** Accepts no further request; requests that have started are finished and answered. */
  finish(): void {
    this.#become('finish')
    if (this.#isBetweenPackets) this.#peer.dismiss()
  }

  close(): void {
    this.#peer.close()
  }

  #become(change: ConnectionChange): void {
    this.#state = changed(this.#state, change)
  }

  /** True while the connection is finishing and no incomplete request has begun. */
  get #isBetweenPackets(): boolean {
    return this.#state === 'finishing' && this.#decoder.heldBytes === 0
  }

  /** Serves all packets. Never waits for data that is already here: one chunk may contain many small packets. */
  async #serveAll(): Promise<Served> {
    const { socketTimeoutMs, socketKeepaliveTimeoutMs } = this.#options
    for (let idleMs = socketTimeoutMs; ; idleMs = socketKeepaliveTimeoutMs) {
      const next = this.#next()
      const packet = next === undefined ? await this.#receive(idleMs) : next
      if (packet === null) return 'unread'
      const turn = this.#actions.turns.take()
      if (turn !== undefined) await turn
      if (!this.#replies.hasRoom(WINDOW_REQUESTS, WINDOW_BYTES))
        await this.#replies.room(WINDOW_REQUESTS, WINDOW_BYTES)
      const serving = this.#serve(packet)
      const served = typeof serving === 'string' ? serving : await serving
      if (served !== 'more') return served
    }
  }

  /** Waits for the next packet; null when there is none. An incomplete packet gets no reply, as in uWSGI. */
  async #receive(idleMs: number): Promise<Packet | null> {
    let deadlineMs = Number.POSITIVE_INFINITY
    for (;;) {
      if (this.#isBetweenPackets) return null
      const isBegun = this.#decoder.heldBytes > 0
      const nowMs = performance.now()
      if (isBegun) deadlineMs = Math.min(deadlineMs, nowMs + this.#options.socketRequestTimeoutMs)
      const chunk = await this.#read(
        Math.min(nowMs + (isBegun ? this.#options.socketTimeoutMs : idleMs), deadlineMs),
      )
      if (chunk === null) return null
      this.#rest = chunk
      const packet = this.#next()
      if (packet !== undefined) return packet
    }
  }

  /** Decodes the next packet. Undefined: more bytes are needed; null: the stream cannot continue. */
  #next(): Packet | null | undefined {
    if (this.#rest.length === 0 || this.#isBetweenPackets) return undefined
    const decoded = this.#decoder.take(this.#rest)
    this.#rest = decoded.kind === 'packet' ? decoded.rest : NOTHING
    const modifier1 = decoded.kind === 'packet' ? decoded.packet.modifier1 : decoded.modifier1
    if (modifier1 !== undefined && !isKnown(modifier1)) {
      this.#actions.unavailable(this.#peer.name, modifier1)
      return null
    }
    if (decoded.kind === 'packet') return decoded.packet
    if (decoded.kind === 'partial') return undefined
    const { bufferSize } = this.#options
    const problem = `invalid request block size: ${decoded.blockBytes} (max ${bufferSize})...skip`
    this.#refuse(new SpooldError('REQUEST_INVALID', problem))
    return null
  }

  #serve({ modifier1, modifier2, bytes }: Packet): Served | Promise<Served> {
    this.#actions.progressed(this)
    const isLast = modifier1 === SIGNAL_MODIFIER || modifier2 !== KEEP_OPEN
    if (!isLast) this.#peer.expectMore()
    const then = isLast ? this.#end : 'more'
    switch (modifier1) {
      case PING_MODIFIER:
        this.#replies.push(PONG, 0)
        return then
      case SIGNAL_MODIFIER:
        this.#replies.push(this.#actions.raise(modifier2) ? STORED : REFUSED, 0)
        return then
      default:
        return this.#spool(bytes, then)
    }
  }

  get #end(): Served {
    return this.#rest.length > 0 ? 'unread' : 'nothing'
  }

  /** @param then returned if the start of another packet is known after this one */
  #spool(packet: Buffer, then: Served): Served | Promise<Served> {
    let wire: WireRequest
    try {
      wire = requestFromPacket(packet)
      this.#checkBody(wire.bodyBytes)
    } catch (error) {
      this.#refuse(error)
      return 'unread'
    }
    if (wire.bodyBytes > 0) return this.#spoolWithBody(wire, packet.length, then)
    this.#replies.push(this.#answer(wire), packet.length)
    return then
  }

  async #spoolWithBody(wire: WireRequest, bytes: number, then: Served): Promise<Served> {
    const body = new BodyReader({
      limits: this.#options,
      bytes: wire.bodyBytes,
      budget: this.#actions.budget,
      read: deadlineMs => this.#read(deadlineMs),
      unread: rest => {
        this.#rest = rest
      },
      progressed: () => this.#actions.progressed(this),
    })
    this.#become('body-begins')
    const reply = this.#stored(wire, { ...wire.request, body })
    this.#replies.push(reply, bytes)
    await reply
    this.#become('body-ended')
    return (await body.skip()) ? then : 'unread' // the body may have been refused before its end
  }

  #checkBody(bytes: number): void {
    const { socketMaxBody } = this.#options
    if (bytes <= socketMaxBody) return
    const problem = `a body of ${counted(bytes, 'byte')} is announced; socket-max-body allows ${socketMaxBody}`
    throw new SpooldError('REQUEST_INVALID', problem, { details: { bytes, limit: socketMaxBody } })
  }

  #refuse(error: unknown): void {
    this.#replies.push(this.#refusal(error), 0)
  }

  #refusal(error: unknown): Buffer {
    this.#actions.refused(this.#peer.name, error)
    return REFUSED
  }

  /** Returns the reply to a request without a body; not a promise if the request can be stored without waiting. */
  #answer(wire: WireRequest): Buffer | Promise<Buffer> {
    try {
      if (this.#actions.storeAtOnce(wire.request, wire.spooler)) return STORED
    } catch (error) {
      return this.#refusal(error)
    }
    return this.#storedInTurn(wire)
  }

  async #storedInTurn(wire: WireRequest): Promise<Buffer> {
    const { packet } = wire.request
    await this.#actions.budget.take(packet.length)
    try {
      return await this.#stored(wire, wire.request)
    } finally {
      this.#actions.budget.give(packet.length)
    }
  }

  async #stored({ spooler, bodyBytes }: WireRequest, request: Request): Promise<Buffer> {
    try {
      await this.#actions.store(request, spooler, bodyBytes)
      return STORED
    } catch (error) {
      return this.#refusal(error)
    }
  }

  async #read(deadlineMs: number): Promise<Buffer | null> {
    if (this.#rest.length === 0) return this.#peer.read(deadlineMs)
    const rest = this.#rest
    this.#rest = NOTHING
    return rest
  }
}

interface BodyReaderOptions {
  readonly bytes: number
  readonly budget: ByteBudget
  /** Returns the peer's next bytes; null if the peer sends no more. @throws PeerLost */
  read(deadlineMs: number): Promise<Buffer | null>
  /** Puts back the bytes after the body. */
  unread(rest: Buffer): void
  /** Called when another MiB has arrived. */
  progressed(): void
  /** How long the peer may be silent, and how long each MiB may take. */
  readonly limits: Pick<Options, 'socketTimeoutMs' | 'socketRequestTimeoutMs'>
}

const DEADLINE_BYTES = 1024 * 1024

/** The body after a packet, read from the peer one chunk at a time. */
class BodyReader implements AsyncIterable<Buffer> {
  readonly #options: BodyReaderOptions
  #left: number
  #isBroken = false

  constructor(options: BodyReaderOptions) {
    this.#options = options
    this.#left = options.bytes
  }

  /** Yields the body. Each chunk counts against the budget until the next one is requested. @throws PeerLost */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { budget, limits, progressed } = this.#options
    let deadlineMs = performance.now() + limits.socketRequestTimeoutMs
    let credit = DEADLINE_BYTES
    while (this.#left > 0) {
      const part = await this.#next(Math.min(performance.now() + limits.socketTimeoutMs, deadlineMs))
      credit -= part.length
      if (credit <= 0) {
        credit += DEADLINE_BYTES
        progressed()
        deadlineMs = performance.now() + limits.socketRequestTimeoutMs
      }
      await budget.take(part.length)
      try {
        yield part
      } finally {
        budget.give(part.length)
      }
    }
  }

  /** Discards the rest of the body. @returns true if the body arrived in full, so that the next packet can be found */
  async skip(): Promise<boolean> {
    if (!this.#isBroken) for await (const _ of this);
    return !this.#isBroken
  }

  async #next(deadlineMs: number): Promise<Buffer> {
    this.#isBroken = true // until the bytes have arrived
    const chunk = await this.#options.read(deadlineMs)
    if (chunk === null) throw new PeerLost(`its body ended ${counted(this.#left, 'byte')} too early`)
    this.#isBroken = false
    const part = chunk.subarray(0, this.#left)
    this.#options.unread(chunk.subarray(part.length))
    this.#left -= part.length
    return part
  }
}

function isKnown(modifier1: number): boolean {
  return modifier1 === SPOOL_MODIFIER || modifier1 === PING_MODIFIER || modifier1 === SIGNAL_MODIFIER
}

/**
 * open: takes packets · body: takes the body of a packet · finishing: takes no further request, and ends what has started ·
 * finishing-body: the same, in a body · parting: has answered everything, and waits for the other end to close · closed.
 */
export type ConnectionState = 'open' | 'body' | 'finishing' | 'finishing-body' | 'parting' | 'closed'

export type ConnectionChange = 'body-begins' | 'body-ended' | 'finish' | 'answered' | 'ended'

const NEXT: Readonly<Record<ConnectionState, { readonly [change in ConnectionChange]?: ConnectionState }>> = {
  open: { 'body-begins': 'body', finish: 'finishing', answered: 'parting', ended: 'closed' },
  body: { 'body-ended': 'open', finish: 'finishing-body', ended: 'closed' },
  finishing: { 'body-begins': 'finishing-body', answered: 'parting', ended: 'closed' },
  'finishing-body': { 'body-ended': 'finishing', ended: 'closed' },
  parting: { ended: 'closed' },
  closed: {},
}

/** Returns the state after a change; the same state if the change means nothing any more. */
export function changed(state: ConnectionState, change: ConnectionChange): ConnectionState {
  return NEXT[state][change] ?? state
}
