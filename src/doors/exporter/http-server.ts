import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { parseAddress } from '../../formats/protocol/address.js'
import { GuardedServer } from '../http/guarded-server.js'

export interface Page {
  /** The media type. */
  readonly type: string
  /** Not changed by anybody: all its readers share it. */
  readonly body: Buffer
}

/** What is served, by path; `/` also serves what has no page of its own. A page that rejects is a 503. */
type Pages = Readonly<Record<string, (request: IncomingMessage) => Promise<Page>>>

const REQUEST_MS = 4000
/** A client that takes longer to read its answer is disconnected. */
const ANSWER_MS = 10_000
/** Nothing of it runs in a browser, and no page of another site may read it: there is no Access-Control-Allow-Origin. */
const HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'",
  'X-Content-Type-Options': 'nosniff',
}

/** A read-only HTTP server. */
export class HttpServer {
  readonly #guarded: GuardedServer
  readonly #pages: Pages

  /** @param address where it listens: requests must be addressed to it, or to an IP address */
  constructor(address: string, pages: Pages) {
    this.#pages = pages
    this.#guarded = new GuardedServer({
      hosts: hostsOf(address),
      headers: HEADERS,
      requestMs: REQUEST_MS,
      answerMs: ANSWER_MS,
      mostBodyBytes: 0,
      answer: (request, response) => this.#answer(request, response),
    })
  }

  accept(socket: Socket): void {
    this.#guarded.accept(socket)
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '/' } = request
    const refuse = this.#guarded.refuse.bind(this.#guarded, response)
    if (method !== 'GET' && method !== 'HEAD')
      return refuse(405, 'expected GET or HEAD', { Allow: 'GET, HEAD' })
    const page = this.#pages[url.split('?')[0] ?? '/'] ?? this.#pages['/']
    if (page === undefined) return refuse(404, 'there is no such page')
    try {
      const { type, body } = await page(request)
      response.writeHead(200, { ...HEADERS, 'Content-Type': type, 'Content-Length': body.length })
      response.end(method === 'HEAD' ? undefined : body)
    } catch {
      refuse(503, 'the daemon does not answer', { 'Retry-After': '5' })
    }
  }
}

/** The names of the server; undefined: all, because only a proxy that we trust can open the socket. */
function hostsOf(text: string): ReadonlySet<string> | undefined {
  const address = parseAddress(text)
  return address.kind === 'tcp' ? new Set(['localhost', address.host.toLowerCase()]) : undefined
}
