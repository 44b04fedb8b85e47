import { createSocket } from 'node:dgram'
import type { PushTarget } from '../net/stats-push.js'
import type { ExporterOptions } from './messages.js'
import type { UwsgiStats } from './uwsgi-stats.js'

type StatsdTarget = Extract<PushTarget, { kind: 'statsd' }>

/** The maximum size of a datagram: small enough for any network to pass on in one piece. */
const MAX_DATAGRAM = 1400

/**
 * Metrics for a statsd, with the names of uWSGI's (core/metrics.c). A counter is sent as what was added since the last push.
 * uWSGI sends the whole value each time, which statsd then adds up.
 */
export class Statsd {
  readonly #target: StatsdTarget
  readonly #options: ExporterOptions
  readonly #last = new Map<string, number>()

  constructor(target: StatsdTarget, options: ExporterOptions) {
    this.#target = target
    this.#options = options
  }

  /** @throws why nothing can be sent there; statsd does not tell whether anything arrives */
  async push(stats: UwsgiStats): Promise<void> {
    const { host, port } = this.#target
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    try {
      for (const datagram of packed(this.lines(stats)))
        await new Promise<void>((resolve, reject) =>
          socket.send(datagram, port, host, error => (error === null ? resolve() : reject(error))),
        )
    } finally {
      socket.close()
    }
  }

  lines({ workers, listen_queue }: UwsgiStats): string[] {
    const lines: string[] = []
    const { prefix } = this.#target
    const { statsdAllGauges, statsdNoWorkers } = this.#options
    const gauge = (name: string, value: number) => lines.push(`${prefix}.${name}:${value}|g`)
    const counter = (name: string, value: number) => {
      if (statsdAllGauges) return gauge(name, value)
      const added = value - (this.#last.get(name) ?? 0)
      this.#last.set(name, value)
      return lines.push(`${prefix}.${name}:${Math.max(0, added)}|c`) // less: without the share of a process that is gone
    }
    for (const worker of statsdNoWorkers ? [] : workers) {
      const name = `worker.${worker.id}`
      counter(`${name}.requests`, worker.requests)
      gauge(`${name}.delta_requests`, worker.delta_requests)
      counter(`${name}.failed_requests`, worker.exceptions)
      counter(`${name}.respawns`, worker.respawn_count)
      gauge(`${name}.avg_response_time`, worker.avg_rt)
      gauge(`${name}.rss_size`, worker.rss)
      gauge(`${name}.vsz_size`, worker.vsz)
      counter(`${name}.running_time`, worker.running_time)
    }
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
    counter('worker.0.requests', sum(workers.map(({ requests }) => requests)))
    gauge('core.busy_workers', workers.filter(({ status }) => status === 'busy').length)
    gauge('core.idle_workers', workers.filter(({ status }) => status === 'idle').length)
    gauge('core.total_rss', sum(workers.map(({ rss }) => rss)))
    gauge('core.total_vsz', sum(workers.map(({ vsz }) => vsz)))
    gauge('core.listen_queue', listen_queue)
    return lines
  }
}

/** Packs lines into as few datagrams as possible, one metric per line. */
function packed(lines: readonly string[]): string[] {
  const datagrams: string[] = []
  for (const line of lines) {
    const last = datagrams.at(-1)
    if (last !== undefined && last.length + line.length < MAX_DATAGRAM)
      datagrams[datagrams.length - 1] = `${last}\n${line}`
    else datagrams.push(line)
  }
  return datagrams
}
