import type { IncomingMessage } from 'node:http'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { type Dialect, exposition } from './exposition.js'
import { HttpServer, type Page } from './http-server.js'
import { METRICS } from './metrics.js'
import { Rendered } from './rendered.js'

const MEDIA_TYPES: Readonly<Record<Dialect, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** Serves `/metrics` for Prometheus, and nothing else. */
export function metricsServer(address: string, snapshot: () => Promise<DaemonSnapshot>): HttpServer {
  const bodies = {
    prometheus: new Rendered(snapshot, taken => exposition(METRICS, taken, 'prometheus')),
    openmetrics: new Rendered(snapshot, taken => exposition(METRICS, taken, 'openmetrics')),
  }
  const page = async ({ headers }: IncomingMessage): Promise<Page> => {
    const dialect = dialectFor(headers.accept)
    return { type: MEDIA_TYPES[dialect], body: await bodies[dialect].get() }
  }
  return new HttpServer(address, { '/metrics': page })
}

/** OpenMetrics only for who likes it better than the older format, which everything reads. */
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
