import { connect, type Socket } from 'node:net'
import { messageOf, SpooldError } from '../../base/errors.js'
import { Queue } from '../../base/queue.js'
import { type Address, formatAddress, socketPath } from '../../formats/protocol/address.js'
import { HEADER_BYTES, modifier2Of, packetBytesOf } from '../../formats/protocol/header.js'

interface SocketConnectionOptions {
  /** How long connecting may take, in ms. */
  readonly connectTimeoutMs: number
  /** How long a reply may take without any progress, in ms. */
  readonly timeoutMs: number
  /** How long an idle connection is kept, in ms. */
  readonly idleMs: number
}

interface Waiting {
  answer(modifier2: number): void
  fail(error: SpooldError): void
}

/** A ping with KEEP_OPEN: spoold replies and waits, a uWSGI replies and closes. */
const PING = Buffer.of(100, 0, 0, 1)

/**
 * One connection: packets go out, replies come back in the same order. An idle connection does not keep the program alive.
 *
 * States: open → ended, by us or by the other end; requests without a reply then fail.
 */
export class SocketConnection {
  readonly #socket: Socket
  readonly #name: string
  readonly #options: SocketConnectionOptions
  readonly #waiting = new Queue<Waiting>()
  #received: Buffer = Buffer.alloc(0)
  #end: SpooldError | undefined
  #isRetired = false

  private constructor(socket: Socket, name: string, options: SocketConnectionOptions) {
    this.#socket = socket
    this.#name = name
    this.#options = options
    socket.on('data', chunk => this.#receive(chunk))
    socket.on('timeout', () => this.#stop(`nothing happened for ${socket.timeout ?? 0} ms`))
    socket.on('error', error => this.#stop(messageOf(error)))
    socket.on('close', () => this.#stop('it closed the connection'))
    this.#rest()
  }

  /** @throws SpooldError SOCKET_UNREACHABLE */
  static open(address: Address, options: SocketConnectionOptions): Promise<SocketConnection> {
    const name = formatAddress(address)
    const target =
      address.kind === 'tcp'
        ? { host: address.host === '' ? '127.0.0.1' : address.host, port: address.port, noDelay: true }
        : { path: socketPath(address) }
    return new Promise((resolve, reject) => {
      const socket = connect(target)
      const fail = (error: unknown) => {
        socket.destroy()
        reject(
          new SpooldError('SOCKET_UNREACHABLE', `no connection to ${name}: ${messageOf(error)}`, {
            cause: error,
            details: { address: name },
          }),
        )
      }
      const { connectTimeoutMs } = options
      const timer = setTimeout(() => fail(new Error(`none within ${connectTimeoutMs} ms`)), connectTimeoutMs)
      socket.once('close', () => clearTimeout(timer))
      socket.once('error', fail)
      socket.once('connect', () => {
        clearTimeout(timer)
        socket.off('error', fail)
        resolve(new SocketConnection(socket, name, options))
      })
    })
  }

  /** True if the connection accepts more requests. */
  get isOpen(): boolean {
    return this.#end === undefined && !this.#isRetired
  }

  /** True if the server keeps connections open, which means that it is a spoold. If not, do not use this connection again. */
  async staysOpen(): Promise<boolean> {
    const pongs = await Promise.allSettled([this.#ask(PING), this.#ask(PING)])
    return pongs.every(({ status }) => status === 'fulfilled')
  }

  /**
   * Resolves when the task is stored.
   *
   * @throws SpooldError SOCKET_REFUSED, SOCKET_UNANSWERED
   */
  async request(...parts: readonly Buffer[]): Promise<void> {
    const modifier2 = await this.#ask(...parts)
    if (modifier2 === 1) return
    this.#isRetired = true // the server may be about to close the connection: nothing can follow a body that is not read
    if (this.#waiting.size === 0) this.end()
    throw new SpooldError(
      'SOCKET_REFUSED',
      `${this.#name} refused the task; its log says why (an unknown spooler, a size over its limits, a full disk)`,
      { details: { address: this.#name } },
    )
  }

  end(): void {
    this.#socket.end()
    this.#stop('the connection was closed here')
  }

  #ask(...parts: readonly Buffer[]): Promise<number> {
    return new Promise((answer, fail) => {
      if (this.#end !== undefined) return fail(this.#end)
      this.#waiting.push({ answer, fail })
      this.#socket.ref()
      this.#socket.setTimeout(this.#options.timeoutMs)
      this.#socket.cork()
      for (const part of parts) this.#socket.write(part)
      process.nextTick(() => this.#socket.uncork()) // together with the other requests of this turn
    })
  }

  #receive(chunk: Buffer): void {
    let received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
    while (received.length >= HEADER_BYTES) {
      const end = packetBytesOf(received) // a uWSGI's pong may carry a warning
      if (received.length < end) break
      this.#waiting.pop()?.answer(modifier2Of(received))
      received = received.subarray(end)
    }
    this.#received = received
    if (this.#waiting.size > 0) return
    if (this.#isRetired) this.end()
    else this.#rest()
  }

  #rest(): void {
    this.#socket.setTimeout(this.#options.idleMs)
    this.#socket.unref()
  }

  #stop(because: string): void {
    if (this.#end !== undefined) return
    const problem = `${this.#name} did not answer, the task may have been stored: ${because}`
    this.#end = new SpooldError('SOCKET_UNANSWERED', problem, { details: { address: this.#name } })
    this.#socket.destroySoon()
    for (let each = this.#waiting.pop(); each !== undefined; each = this.#waiting.pop()) each.fail(this.#end)
  }
}
