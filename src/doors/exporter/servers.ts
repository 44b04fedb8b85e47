import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { parseAddress } from '../../formats/protocol/address.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { Clients } from '../http/clients.js'
import { GuardedServer } from '../http/guarded-server.js'
import { type Dialect, exposition } from './exposition.js'
import type { ExporterOptions } from './messages.js'
import { METRICS } from './metrics.js'
import { printed, uwsgiStats } from './uwsgi-stats.js'

/** A client that takes longer to read its answer is disconnected; `socket-timeout` in uWSGI. */
const DEADLINE_MS = 4000

interface Acceptor {
  accept(socket: Socket): void
}

/**
 * uWSGI's stats server: it sends its JSON to whoever connects, with `stats-http` as an HTTP answer, and hangs up.
 *
 * @param snapshot rejects if the daemon does not answer
 */
export function statsServer(
  address: string,
  { statsNoCores, statsMinified, statsHttp }: ExporterOptions,
  snapshot: () => Promise<DaemonSnapshot>,
): Acceptor {
  const document = rendered(snapshot, taken => printed(uwsgiStats(taken, !statsNoCores), statsMinified))
  if (statsHttp)
    return httpServer(address, null, async () => ({ type: 'application/json', body: await document() }))
  const clients = new Clients()
  return {
    accept(socket) {
      clients.add(socket)
      const deadline = setTimeout(() => socket.destroy(), DEADLINE_MS)
      socket.once('close', () => clearTimeout(deadline))
      document().then(
        body => socket.end(body),
        () => socket.destroy(),
      )
    },
  }
}

const MEDIA_TYPES: Readonly<Record<Dialect, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** Serves `/metrics` for Prometheus, and nothing else. */
export function metricsServer(address: string, snapshot: () => Promise<DaemonSnapshot>): Acceptor {
  const bodies = {
    prometheus: rendered(snapshot, taken => exposition(METRICS, taken, 'prometheus')),
    openmetrics: rendered(snapshot, taken => exposition(METRICS, taken, 'openmetrics')),
  }
  const page = async ({ headers }: IncomingMessage): Promise<Page> => {
    const dialect = dialectFor(headers.accept)
    return { type: MEDIA_TYPES[dialect], body: await bodies[dialect]() }
  }
  return httpServer(address, '/metrics', page)
}

/** Returns the dialect for a client: OpenMetrics only if the client prefers it to the older format, which everything reads. */
export function dialectFor(accept = ''): Dialect {
  const weights = { openmetrics: 0, text: 0 }
  for (const range of accept.toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map(part => part.trim())
    const parameter = (name: string) => parameters.find(each => each.startsWith(`${name}=`))?.split('=')[1]
    const weight = Number(parameter('q') ?? 1)
    if (type === 'application/openmetrics-text' && (parameter('version') ?? '1.0.0') === '1.0.0')
      weights.openmetrics = Math.max(weights.openmetrics, weight)
    else if (type === 'text/plain') weights.text = Math.max(weights.text, weight)
  }
  return weights.openmetrics > weights.text ? 'openmetrics' : 'prometheus'
}

/**
 * Returns what gives a snapshot as bytes. Each snapshot is rendered once, however many clients read it.
 *
 * @returns a function that rejects if the daemon does not answer
 */
function rendered(
  snapshot: () => Promise<DaemonSnapshot>,
  render: (snapshot: DaemonSnapshot) => string,
): () => Promise<Buffer> {
  let last: { readonly of: DaemonSnapshot; readonly body: Buffer } | undefined
  return async () => {
    const taken = await snapshot()
    if (last?.of !== taken) last = { of: taken, body: Buffer.from(render(taken)) }
    return last.body
  }
}

interface Page {
  /** The media type. */
  readonly type: string
  /** Must not be changed, because all readers share it. */
  readonly body: Buffer
}

const REQUEST_MS = 4000
/** A client that takes longer to read its answer is disconnected. */
const ANSWER_MS = 10_000
/** No answer may run in a browser, and no page of another site may read one, so there is no Access-Control-Allow-Origin. */
const HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'",
  'X-Content-Type-Options': 'nosniff',
}

/**
 * A read-only HTTP server of one page.
 *
 * @param address where the server listens: requests must be addressed to it, or to an IP address
 * @param path of the page; null: it is at every path
 * @param pageFor if it rejects, the answer is 503
 */
function httpServer(
  address: string,
  path: string | null,
  pageFor: (request: IncomingMessage) => Promise<Page>,
): Acceptor {
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = '', url = '/' } = request
    const refuse = guarded.refuse.bind(guarded, response)
    if (method !== 'GET' && method !== 'HEAD')
      return refuse(405, 'expected GET or HEAD', { Allow: 'GET, HEAD' })
    if (path !== null && url.split('?')[0] !== path) return refuse(404, 'there is no such page')
    try {
      const { type, body } = await pageFor(request)
      response.writeHead(200, { ...HEADERS, 'Content-Type': type, 'Content-Length': body.length })
      response.end(method === 'HEAD' ? undefined : body)
    } catch {
      refuse(503, 'the daemon does not answer', { 'Retry-After': '5' })
    }
  }
  const guarded = new GuardedServer({
    hosts: hostsOf(address),
    headers: HEADERS,
    requestMs: REQUEST_MS,
    answerMs: ANSWER_MS,
    mostBodyBytes: 0,
    answer,
  })
  return guarded
}

/** Returns the names of the server; undefined: any name, because only a trusted proxy can open the socket. */
function hostsOf(text: string): ReadonlySet<string> | undefined {
  const address = parseAddress(text)
  return address.kind === 'tcp' ? new Set(['localhost', address.host.toLowerCase()]) : undefined
}
