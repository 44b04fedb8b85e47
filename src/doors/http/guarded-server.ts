import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { Clients } from './clients.js'

interface GuardOptions {
  /**
   * The names of this server besides IP addresses, in lower case; undefined: any name, because only a trusted proxy can open the
   * socket.
   */
  readonly hosts: ReadonlySet<string> | undefined
  /** The headers of every refusal. */
  readonly headers: Readonly<Record<string, string>>
  /** A request has to arrive within this time. */
  readonly requestMs: number
  /** An answer has to be made, and taken, within this time. */
  readonly answerMs: number
  /** The maximum size of a request's body. */
  readonly mostBodyBytes: number
  answer(request: IncomingMessage, response: ServerResponse): void | Promise<void>
}

/** How long a connection may be idle between two requests. */
const KEEP_ALIVE_MS = 15_000
const HEADERS_MS = 4000
const CHECK_MS = 1000
const MAX_HEADER_BYTES = 8192
/**
 * The most answers that are made at a time. The number of connections does not bound what they need meanwhile, because clients
 * come and go.
 */
const MOST_ANSWERS = 32

/** Why a request gets no answer of its own. */
interface Refusal {
  readonly status: number
  readonly why: string
  readonly headers?: Record<string, string>
}

/** An HTTP server for sockets that are accepted elsewhere, with limits against hostile clients. */
export class GuardedServer {
  readonly #options: GuardOptions
  readonly #server: Server
  readonly #clients = new Clients()
  /** The sockets whose answer is not taken yet. */
  readonly #answering = new WeakSet<Socket>()
  /** How many answers are being made. */
  #making = 0

  constructor(options: GuardOptions) {
    this.#options = options
    const limits = {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_MS,
      requestTimeout: options.requestMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: CHECK_MS,
    }
    this.#server = createServer(limits, (request, response) => this.#serve(request, response))
    this.#server.on('clientError', (_, socket) => {
      // the other half is open until the client ends it, which may be never
      const gone = () => socket.destroy()
      if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n', gone)
      else gone()
    })
    this.#server.emit('listening') // Node enforces its deadlines only from then on, and this server never listens itself
  }

  accept(socket: Socket): void {
    this.#clients.add(socket)
    this.#server.emit('connection', socket)
    hearInPieces(socket)
    socket.resume()
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    // Node hears all requests of a chunk at once, and would keep an answer for each; no legitimate client pipelines
    if (this.#answering.has(socket)) return void socket.destroy()
    this.#answering.add(socket)
    const deadline = setTimeout(() => socket.destroy(), this.#options.answerMs)
    response.once('close', () => {
      clearTimeout(deadline)
      this.#answering.delete(socket)
    })
    const refusal = this.#refusal(request)
    if (refusal !== undefined) {
      const { status, why, headers } = refusal
      return this.refuse(response, status, why, headers)
    }
    // deferred, so that nothing is done for a client that pipelines, which is gone by then
    setImmediate(() => socket.destroyed || void this.#answer(request, response))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#making++
    try {
      await this.#options.answer(request, response)
    } finally {
      this.#making--
    }
  }

  #refusal({ headers, headersDistinct }: IncomingMessage): Refusal | undefined {
    const { host, 'content-length': length = '0', 'transfer-encoding': coding } = headers
    const { mostBodyBytes } = this.#options
    if ((headersDistinct.host?.length ?? 0) > 1)
      return { status: 400, why: 'expected one Host header, got several' }
    if (!this.#isOurs(host))
      return { status: 421, why: `this server does not answer for the host ${JSON.stringify(host ?? '')}` }
    if (coding !== undefined) return { status: 411, why: 'expected Content-Length, got Transfer-Encoding' }
    if (Number(length) > mostBodyBytes)
      return { status: 413, why: `expected a request of at most ${mostBodyBytes} bytes, got ${length}` }
    if (this.#making < MOST_ANSWERS) return undefined
    const why = 'too many requests at once: try again'
    return { status: 503, why, headers: { 'Retry-After': '1' } }
  }

  /**
   * True if the request is meant for this server. DNS rebinding makes a browser send requests of a stranger's page to a loopback
   * address, but it cannot change the name in `Host`. An IP address in `Host` is accepted, because it is no name that a stranger
   * can own.
   */
  #isOurs(host: string | undefined): boolean {
    const { hosts } = this.#options
    if (hosts === undefined || host === undefined) return true // HTTP/1.0 without Host is not a browser
    const name = host
      .replace(/:[0-9]+$/, '')
      .replace(/^\[(.*)\]$/, '$1')
      .toLowerCase()
    return isIP(name) !== 0 || hosts.has(name)
  }

  /** Answers with one sentence, and hangs up. */
  refuse(response: ServerResponse, status: number, why: string, headers: Record<string, string> = {}): void {
    response.writeHead(status, {
      ...this.#options.headers,
      ...headers,
      'Content-Type': 'text/plain; charset=utf-8',
      Connection: 'close',
    })
    response.end(`${why}\n`)
  }
}

/** Smaller than most requests, because all requests in a piece but the first are parsed for nothing. */
const PIECE_BYTES = 512

/**
 * Hands what arrives to an HTTP server in small pieces. Node parses whatever it has read at once, up to 64 KiB, and makes objects
 * for each of the thousands of requests in it, even after the first of them had the socket destroyed. Call it right after the
 * server took the socket. The listener for `data` also makes Node read in JavaScript, instead of bypassing it.
 */
function hearInPieces(socket: Socket): void {
  const listeners = socket.listeners('data')
  socket.removeAllListeners('data')
  socket.on('data', (chunk: Buffer) => {
    for (let at = 0; at < chunk.length && !socket.destroyed; at += PIECE_BYTES) {
      const piece = chunk.subarray(at, at + PIECE_BYTES)
      for (const hear of listeners) hear.call(socket, piece)
    }
  })
}
