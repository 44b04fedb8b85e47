import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { parseAddress } from '../protocol/address.js'
import { Clients } from './clients.js'

export interface Page {
  /** The media type. */
  readonly type: string
  /** Not changed by anybody: all its readers share it. */
  readonly body: Buffer
}

/** What is served, by path; `/` also serves what has no page of its own. A page that rejects is a 503. */
type Pages = Readonly<Record<string, (request: IncomingMessage) => Promise<Page>>>

const LIMITS = {
  maxHeaderSize: 8192,
  /** Sending a request, and idling between two, may take this long. */
  headersTimeout: 4000,
  requestTimeout: 4000,
  keepAliveTimeout: 15_000,
  connectionsCheckingInterval: 1000,
}
/** A client that takes longer to read its answer is disconnected. */
const WRITE_DEADLINE_MS = 10_000
/** Nothing of it runs in a browser, and no page of another site may read it: there is no Access-Control-Allow-Origin. */
const HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'",
  'X-Content-Type-Options': 'nosniff',
}

/** A read-only HTTP server for sockets that are accepted elsewhere, with limits for clients that mean no good. */
export class HttpServer {
  readonly #server: Server
  readonly #pages: Pages
  readonly #hosts: ReadonlySet<string> | undefined
  readonly #clients = new Clients()
  /** Those whose answer is not taken yet. */
  readonly #answering = new WeakSet<Socket>()

  /** @param address where it listens: requests must be addressed to it, or to an IP address */
  constructor(address: string, pages: Pages) {
    this.#pages = pages
    this.#hosts = hostsOf(address)
    this.#server = createServer(LIMITS, (request, response) => void this.#answer(request, response))
    this.#server.on('clientError', (_, socket) => {
      // its other half is open until the client ends it, which may be never
      const gone = () => socket.destroy()
      if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n', gone)
      else gone()
    })
    this.#server.emit('listening') // Node enforces its deadlines from then on, and this server never listens itself
  }

  accept(socket: Socket): void {
    this.#clients.add(socket)
    this.#server.emit('connection', socket)
    socket.resume()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request
    // Node hears all requests of a chunk at once, and would keep an answer for each; no scraper pipelines
    if (this.#answering.has(socket)) return void socket.destroy()
    this.#answering.add(socket)
    const deadline = setTimeout(() => socket.destroy(), WRITE_DEADLINE_MS)
    response.once('close', () => {
      clearTimeout(deadline)
      this.#answering.delete(socket)
    })
    const { method = '', headers, url = '/' } = request
    if (method !== 'GET' && method !== 'HEAD')
      return refuse(response, 405, 'expected GET or HEAD', { Allow: 'GET, HEAD' })
    if (!this.#isOurs(headers.host))
      return refuse(
        response,
        421,
        `this server does not answer for the host ${JSON.stringify(headers.host ?? '')}`,
      )
    const page = this.#pages[url.split('?')[0] ?? '/'] ?? this.#pages['/']
    if (page === undefined) return refuse(response, 404, 'there is no such page')
    try {
      const { type, body } = await page(request)
      response.writeHead(200, { ...HEADERS, 'Content-Type': type, 'Content-Length': body.length })
      response.end(method === 'HEAD' ? undefined : body)
    } catch {
      refuse(response, 503, 'the daemon does not answer', { 'Retry-After': '5' })
    }
  }

  /**
   * DNS rebinding makes a browser send requests of a stranger's page to a loopback address; it cannot change the name in
   * `Host`. An IP address there is no name that a stranger can own.
   */
  #isOurs(host: string | undefined): boolean {
    if (this.#hosts === undefined) return true
    if (host === undefined) return true // HTTP/1.0: no browser
    const name = host
      .replace(/:[0-9]+$/, '')
      .replace(/^\[(.*)\]$/, '$1')
      .toLowerCase()
    return isIP(name) !== 0 || this.#hosts.has(name)
  }
}

/** The names of the server; undefined: all, because only a proxy that we trust can open the socket. */
function hostsOf(text: string): ReadonlySet<string> | undefined {
  const address = parseAddress(text)
  return address.kind === 'tcp' ? new Set(['localhost', address.host.toLowerCase()]) : undefined
}

function refuse(
  response: ServerResponse,
  status: number,
  why: string,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, {
    ...HEADERS,
    ...headers,
    'Content-Type': 'text/plain; charset=utf-8',
    Connection: 'close',
  })
  response.end(`${why}\n`)
}
