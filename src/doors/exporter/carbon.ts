import { connect } from 'node:net'
import { hostname } from 'node:os'
import { parseHostPort } from '../net/stats-push.js'
import type { ExporterOptions } from './messages.js'
import type { UwsgiStats } from './uwsgi-stats.js'

type Worker = UwsgiStats['workers'][number]

/** Writes Graphite's plain text, with the names of uWSGI's carbon plugin (plugins/carbon/carbon.c). */
export class Carbon {
  readonly #options: ExporterOptions
  readonly #prefix: string
  #lastRequests: number | undefined
  /** The run time at the last push, in µs, by process id. */
  #lastRunningTimes = new Map<number, number>()

  constructor(options: ExporterOptions) {
    const { carbonRoot: root, carbonHostnameDots: dots, carbonId, socket } = options
    const host = dots === null ? hostname() : hostname().replaceAll('.', dots)
    const id = carbonId ?? (socket[0] ?? 'spoold').replaceAll('.', '_') // uWSGI's is the name of the first socket, too
    this.#options = options
    this.#prefix = `${root === '' || root.endsWith('.') ? root : `${root}.`}${host}.${id}`
  }

  /** Sends to all servers, even if one fails. @throws AggregateError of the servers that could not be reached */
  async push(stats: UwsgiStats, seconds: number): Promise<void> {
    const text = this.lines(stats, seconds).join('')
    const { carbon, carbonTimeoutMs } = this.#options
    const sent = await Promise.allSettled(
      carbon.map(server => send(parseHostPort(server), text, carbonTimeoutMs)),
    )
    const failed = sent.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))
    if (failed.length > 0) throw new AggregateError(failed, failed.map(String).join('; '))
  }

  lines({ workers }: UwsgiStats, seconds: number): string[] {
    const lines: string[] = []
    const add = (name: string, value: number) =>
      lines.push(`${this.#prefix}.${name} ${Math.round(value)} ${seconds}\n`)
    const active = workers.filter(({ status }) => status !== 'cheap')
    const busyness = new Map(active.map(worker => [worker.pid, this.#busyness(worker)]))
    const requests = total(workers, 'requests')
    const average = this.#average(requests)
    add('requests', requests)
    for (const worker of this.#options.carbonNoWorkers ? [] : workers) {
      const each = (name: string, value: number) => add(`worker${worker.id}.${name}`, value)
      each('requests', worker.requests)
      each('rss_size', worker.rss)
      each('vsz_size', worker.vsz)
      if (average !== null) each('avg_rt', worker.avg_rt * average)
      each('tx', worker.tx)
      each('busyness', busyness.get(worker.pid) ?? 0)
      each('harakiri', worker.harakiri_count)
      each('respawns', worker.respawn_count)
      each('exceptions', worker.exceptions)
    }
    add('rss_size', total(active, 'rss'))
    add('vsz_size', total(active, 'vsz'))
    if (average !== null) add('avg_rt', mean(active.map(worker => worker.avg_rt)) * average)
    add('tx', total(workers, 'tx'))
    add('busyness', mean([...busyness.values()]))
    add('active_workers', active.length)
    add('busy_workers', active.filter(({ status }) => status === 'busy').length)
    add('idle_workers', active.filter(({ status }) => status === 'idle').length)
    add('harakiri', total(workers, 'harakiri_count'))
    add('respawns', total(workers, 'respawn_count'))
    add('exceptions', total(workers, 'exceptions'))
    this.#lastRequests = requests
    this.#lastRunningTimes = new Map(active.map(worker => [worker.pid, worker.running_time]))
    return lines
  }

  /** Returns the factor of the average: 1 or 0; null: the average is left out. */
  #average(requests: number): 0 | 1 | null {
    if (this.#lastRequests !== undefined && this.#lastRequests !== requests) return 1
    return { last: 1, zero: 0, none: null }[this.#options.carbonIdleAvg] as 0 | 1 | null
  }

  /**
   * Returns the share of the time since the last push, in percent. A process that is busy, but has ended no run since then,
   * counts as 100.
   */
  #busyness({ pid, status, running_time }: Worker): number {
    const ranMicros = running_time - (this.#lastRunningTimes.get(pid) ?? 0)
    if (ranMicros <= 0) return status === 'busy' ? 100 : 0
    return Math.min(100, ranMicros / (this.#options.carbonFreqMs * 10))
  }
}

function total(
  workers: readonly Worker[],
  field: 'requests' | 'rss' | 'vsz' | 'tx' | 'harakiri_count' | 'respawn_count' | 'exceptions',
): number {
  return workers.reduce((sum, worker) => sum + worker[field], 0)
}

function mean(numbers: readonly number[]): number {
  return numbers.length === 0 ? 0 : numbers.reduce((sum, number) => sum + number, 0) / numbers.length
}

function send(
  { host, port }: ReturnType<typeof parseHostPort>,
  text: string,
  timeoutMs: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port })
    const timer = setTimeout(
      () => socket.destroy(new Error(`${host}:${port} did not take it within ${timeoutMs / 1000} s`)),
      timeoutMs,
    )
    socket.once('error', reject)
    socket.once('close', hadError => {
      clearTimeout(timer)
      if (!hadError) resolve()
    })
    socket.resume().end(text)
  })
}
