import type { Emitter } from '../../base/events/emitter.js'
import type { Options } from '../../formats/config/option-table.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import type { AlarmMemory } from '../exporter/alarms.js'
import type { ExporterOptions, FromExporter, ToExporter } from '../exporter/messages.js'
import { parseAlarm } from '../net/alarm-target.js'
import { needsInsecure } from '../net/check-publishing.js'
import { AsideProcess } from './aside-process.js'
import { pushOptions } from './push-options.js'

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
