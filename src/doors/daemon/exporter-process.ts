import type { Emitter } from '../../base/events/emitter.js'
import type { Options } from '../../formats/config/option-table.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import type { AlarmMemory } from '../exporter/alarms.js'
import type { ExporterOptions, FromExporter, PushOptions, ToExporter } from '../exporter/messages.js'
import { parseAlarm } from '../net/alarm-target.js'
import { needsInsecure } from '../net/check-publishing.js'
import { type PushTarget, parseHostPort, parsePush } from '../net/stats-push.js'
import { AsideProcess } from './aside-process.js'

interface ExporterContext {
  readonly events: Emitter
  readonly log: { readonly fd: number }
  snapshot(): Promise<DaemonSnapshot>
}

/** The process that publishes the daemon's snapshot, while the configuration asks for one. */
export class ExporterProcess {
  readonly #process: AsideProcess<ExporterOptions, FromExporter, ToExporter>

  constructor({ events, log, snapshot }: ExporterContext) {
    let alarmMemory: AlarmMemory = [] // what the next process has to know
    const trouble = (message: string) => events.emit('exporter-trouble', { message })
    this.#process = new AsideProcess<ExporterOptions, FromExporter, ToExporter>({
      name: 'exporter',
      log,
      open: options => ({ type: 'open', options, alarmMemory }),
      hear(message, answer) {
        switch (message.type) {
          case 'ask':
            return void snapshot().then(taken => answer({ type: 'snapshot', snapshot: taken }))
          case 'listening':
            return void events.emit('exporter-listening', message)
          case 'alarm':
            return void events.emit('exporter-alarm', { message: message.message })
          case 'alarm-memory':
            alarmMemory = message.memory
            return
          case 'trouble':
            return trouble(message.message)
        }
      },
      trouble,
    })
  }

  /** Puts a configuration into service. */
  serve(options: Options): Promise<void> {
    return this.#process.serve(exporterOptions(options))
  }

  /** Resolves when it is gone. */
  stop(): Promise<void> {
    return this.#process.stop()
  }
}

/** @returns undefined: there is nothing to publish */
function exporterOptions(options: Options): ExporterOptions | undefined {
  const { spoolerMetrics, spoolerMetricsFile: metricsFile, chmodSocket: mode } = options
  const stats = statsOptions(options)
  const metrics = spoolerMetrics === null ? null : { address: spoolerMetrics, mode }
  const pushes = pushOptions(options)
  const { spoolerAlarm, spoolerHttpInsecure: allowsPlain } = options
  const alarms = spoolerAlarm.map(text => ({ ...parseAlarm(text), allowsPlain }))
  const servesNone = stats === null && metrics === null && metricsFile === null
  const isSilent = servesNone && pushes.length === 0 && alarms.length === 0
  return isSilent ? undefined : { stats, metrics, metricsFile, pushes, alarms }
}

function statsOptions(options: Options): ExporterOptions['stats'] {
  const { stats, statsHttp, statsMinified, statsNoCores, chmodSocket: mode } = options
  if (stats === null || (statsHttp && needsInsecure(stats, options))) return null
  return {
    listener: { address: stats, mode },
    isHttp: statsHttp,
    isMinified: statsMinified,
    withCores: !statsNoCores,
  }
}

/** What the exporter pushes, and where to. */
function pushOptions(options: Options): PushOptions[] {
  const { statsPush, carbon } = options
  const pushes = statsPush.flatMap(text => pushTo(text, options))
  return carbon.length === 0 ? pushes : [...pushes, carbonPush(options)]
}

/** @returns none for a destination that only uWSGI knows; the check of the configuration has said so */
function pushTo(text: string, options: Options): PushOptions[] {
  const target = knownPush(text)
  if (target === undefined) return []
  const { statsPusherDefaultFreqMs, statsNoCores, statsMinified, statsdNoWorkers, statsdAllGauges } = options
  const shared = { everyMs: statsPusherDefaultFreqMs, withCores: !statsNoCores }
  if (target.kind === 'file')
    return [{ ...shared, ...target, everyMs: target.everyMs ?? shared.everyMs, isMinified: statsMinified }]
  return [{ ...shared, ...target, withWorkers: !statsdNoWorkers, allGauges: statsdAllGauges }]
}

function knownPush(text: string): PushTarget | undefined {
  try {
    return parsePush(text)
  } catch {
    return undefined
  }
}

/** The defaults of uWSGI's plugin; its id is the name of the first socket. */
function carbonPush(options: Options): PushOptions {
  const { carbon, socket, carbonFreqMs, carbonTimeoutMs, carbonRoot, carbonNoWorkers } = options
  return {
    kind: 'carbon',
    withCores: false,
    servers: carbon.map(parseHostPort),
    everyMs: carbonFreqMs,
    timeoutMs: carbonTimeoutMs,
    id: options.carbonId ?? (socket[0] ?? 'spoold').replaceAll('.', '_'),
    root: carbonRoot,
    withWorkers: !carbonNoWorkers,
    hostnameDots: options.carbonHostnameDots,
    idleAverage: options.carbonIdleAvg,
  }
}
