import { SpooldError } from '../base/errors.js'
import { KEEP_OPEN, SPOOL_MODIFIER } from '../protocol/packet.js'
import { type Packet, PacketDecoder } from '../protocol/packet-decoder.js'
import { requestFromBlock, type WireRequest } from '../protocol/request-vars.js'
import type { Request } from '../task/request.js'
import type { ByteBudget } from './byte-budget.js'
import { IncomingBody } from './incoming-body.js'
import type { Peer } from './peer.js'
import { Replies } from './replies.js'
import type { Turns } from './turns.js'

export interface ConnectionLimits {
  /** The most bytes a packet's block may have. */
  readonly bufferBytes: number
  readonly maxBodyBytes: number
  /** A peer that sends or takes nothing for so long, while it is its turn, is dropped. */
  readonly timeoutMs: number
  /** A packet, and each MiB of its body, has arrived after so long. */
  readonly requestTimeoutMs: number
  /** How long a connection stays open with nothing going on. */
  readonly keepaliveMs: number
}

export interface ConnectionDuties {
  readonly budget: ByteBudget
  readonly turns: Turns
  /**
   * @param bodyBytes how long the request's body is
   * @throws SpooldError why there is no task
   */
  store(request: Request, spooler: Buffer | undefined, bodyBytes: number): Promise<void>
  refused(peer: string, error: unknown): void
  unavailable(peer: string, modifier1: number): void
  /** A packet has come: it is no peer of those that only hold a place. */
  progressed(connection: Connection): void
}

const PING_MODIFIER = 100
const SIGNAL_MODIFIER = 110
/** uWSGI's answers (plugins/spooler, plugins/ping, plugins/signal). A signal without handler is taken all the same. */
const STORED = Buffer.of(255, 0, 0, 1)
const REFUSED = Buffer.of(255, 0, 0, 0)
const PONG = Buffer.of(PING_MODIFIER, 0, 0, 1)
/** What one connection may have under way at a time. */
const WINDOW_REQUESTS = 64
const WINDOW_BYTES = 256 * 1024
const NOTHING = Buffer.alloc(0)

/** States: between packets → in a packet → in its body → between packets …; then parting → closed. */
export class Connection {
  readonly #peer: Peer
  readonly #limits: ConnectionLimits
  readonly #duties: ConnectionDuties
  readonly #decoder: PacketDecoder
  readonly #replies: Replies
  /** Has come, but is not looked at yet. */
  #rest: Buffer = NOTHING
  #isReading = false
  #isParting = false
  /** The peer may have sent, or may go on to send, what is not read any more. */
  #isMisread = false
  #isFinishing = false
  /** The request whose body is under way; it waits for its peer, not for us. */
  #bodies = 0

  constructor(peer: Peer, limits: ConnectionLimits, duties: ConnectionDuties) {
    this.#peer = peer
    this.#limits = limits
    this.#duties = duties
    this.#decoder = new PacketDecoder(limits.bufferBytes)
    this.#replies = new Replies(
      reply => peer.write(reply, limits.timeoutMs),
      () => peer.close(),
    )
  }

  /** It holds a place and nothing else: no whole request of it is being stored or answered. */
  get isWaiting(): boolean {
    return this.#isParting || (this.#isReading && this.#replies.size === this.#bodies)
  }

  /** Resolves when the connection is closed, and all that came whole is stored or refused. Never rejects. */
  async serve(): Promise<void> {
    try {
      let idleMs = this.#limits.timeoutMs
      while (await this.#serveOne(idleMs)) idleMs = this.#limits.keepaliveMs
      await this.#replies.done()
      this.#isParting = true
      if (this.#isMisread) await this.#peer.part(this.#limits.timeoutMs)
    } catch {
      await this.#replies.done()
    }
    this.#peer.close()
  }

  /** Takes no further request; what has begun is finished and answered. */
  finish(): void {
    this.#isFinishing = true
    if (this.#bodies === 0 && this.#decoder.heldBytes === 0) this.#peer.dismiss()
  }

  close(): void {
    this.#peer.close()
  }

  /** @returns whether there may be another one */
  async #serveOne(idleMs: number): Promise<boolean> {
    this.#isMisread = true
    const packet = await this.#receive(idleMs)
    if (packet === undefined) return false
    await this.#duties.turns.take()
    this.#duties.progressed(this)
    const isLast = packet.modifier2 !== KEEP_OPEN
    if (!isLast) this.#peer.expectMore()
    this.#isMisread = !isLast || this.#rest.length > 0
    switch (packet.modifier1) {
      case PING_MODIFIER:
        this.#replies.push(PONG, 0)
        await this.#replies.room(WINDOW_REQUESTS, WINDOW_BYTES)
        return !isLast
      case SIGNAL_MODIFIER:
        this.#replies.push(STORED, 0)
        return false
      default:
        return (await this.#spool(packet)) && !isLast
    }
  }

  /** The next packet; undefined when there is none. What never comes whole is not answered, as in uWSGI. */
  async #receive(idleMs: number): Promise<Packet | undefined> {
    let idleUntilMs = performance.now() + idleMs
    let deadlineMs = Number.POSITIVE_INFINITY
    for (;;) {
      if (this.#isFinishing && this.#decoder.heldBytes === 0) return undefined
      const chunk = await this.#read(Math.min(idleUntilMs, deadlineMs))
      if (chunk === null) return undefined
      const decoded = this.#decoder.take(chunk)
      const modifier1 = decoded.kind === 'packet' ? decoded.packet.modifier1 : decoded.modifier1
      if (modifier1 !== undefined && !isKnown(modifier1)) {
        this.#duties.unavailable(this.#peer.name, modifier1)
        return undefined
      }
      if (decoded.kind === 'oversized') {
        const { bufferBytes } = this.#limits
        const problem = `invalid request block size: ${decoded.blockBytes} (max ${bufferBytes})...skip`
        this.#refuse(new SpooldError('REQUEST_INVALID', problem))
        return undefined
      }
      if (decoded.kind === 'packet') {
        this.#rest = decoded.rest
        return decoded.packet
      }
      const nowMs = performance.now()
      idleUntilMs = nowMs + this.#limits.timeoutMs
      deadlineMs = Math.min(deadlineMs, nowMs + this.#limits.requestTimeoutMs)
    }
  }

  /** @returns whether it is known where the next packet begins */
  async #spool(packet: Packet): Promise<boolean> {
    let wire: WireRequest
    try {
      wire = requestFromBlock(packet.block)
      this.#checkBody(wire.bodyBytes)
    } catch (error) {
      this.#refuse(error)
      return false
    }
    const bytes = packet.block.length
    await this.#replies.room(WINDOW_REQUESTS, WINDOW_BYTES)
    if (wire.bodyBytes > 0) return this.#spoolWithBody(wire, bytes)
    this.#replies.push(this.#store(wire, bytes), bytes)
    return true
  }

  async #spoolWithBody(wire: WireRequest, bytes: number): Promise<boolean> {
    const body = new IncomingBody({
      ...this.#limits,
      bytes: wire.bodyBytes,
      budget: this.#duties.budget,
      read: deadlineMs => this.#read(deadlineMs),
      unread: rest => {
        this.#rest = rest
      },
      progressed: () => this.#duties.progressed(this),
    })
    this.#bodies++
    const reply = this.#answer(wire, { ...wire.request, body })
    this.#replies.push(reply, bytes)
    await reply
    this.#bodies--
    return body.skip() // it may have been refused before its end
  }

  async #store(wire: WireRequest, bytes: number): Promise<Buffer> {
    await this.#duties.budget.take(bytes)
    try {
      return await this.#answer(wire, wire.request)
    } finally {
      this.#duties.budget.give(bytes)
    }
  }

  async #answer({ spooler, bodyBytes }: WireRequest, request: Request): Promise<Buffer> {
    try {
      await this.#duties.store(request, spooler, bodyBytes)
      return STORED
    } catch (error) {
      this.#duties.refused(this.#peer.name, error)
      return REFUSED
    }
  }

  #checkBody(bytes: number): void {
    const { maxBodyBytes } = this.#limits
    if (bytes <= maxBodyBytes) return
    const problem = `a body of ${bytes} bytes is announced; socket-max-body allows ${maxBodyBytes}`
    throw new SpooldError('REQUEST_INVALID', problem, { details: { bytes, limit: maxBodyBytes } })
  }

  #refuse(error: unknown): void {
    this.#isMisread = true
    this.#duties.refused(this.#peer.name, error)
    this.#replies.push(REFUSED, 0)
  }

  async #read(deadlineMs: number): Promise<Buffer | null> {
    if (this.#rest.length > 0) {
      const rest = this.#rest
      this.#rest = NOTHING
      return rest
    }
    this.#isReading = true
    try {
      return await this.#peer.read(deadlineMs)
    } finally {
      this.#isReading = false
    }
  }
}

function isKnown(modifier1: number): boolean {
  return modifier1 === SPOOL_MODIFIER || modifier1 === PING_MODIFIER || modifier1 === SIGNAL_MODIFIER
}
