import { type ChildProcess, fork } from 'node:child_process'
import { messageOf } from '../base/errors.js'
import { entryFile } from '../base/package-root.js'
import type { Options } from '../config/option-table.js'
import type { Emitter } from '../events/emitter.js'
import type { ExporterOptions, FromExporter, ToExporter } from '../exporter/messages.js'
import { parseAlarm } from '../net/alarm-target.js'
import { needsInsecure } from '../net/check-publishing.js'
import type { DaemonSnapshot } from '../stats/snapshot.js'
import { pushOptions } from './push-options.js'

interface ExporterContext {
  readonly events: Emitter
  readonly log: { readonly fd: number }
  snapshot(): Promise<DaemonSnapshot>
}

/** A process that keeps dying is started less and less often, up to once per minute. */
const FIRST_RESPAWN_MS = 1000
const LAST_RESPAWN_MS = 60_000
/** It only closes sockets. */
const END_MS = 1000

/** The process that publishes the daemon's snapshot, while the configuration asks for one. */
export class ExporterProcess {
  readonly #context: ExporterContext
  #options: ExporterOptions | undefined
  #child: ChildProcess | undefined
  #respawn: NodeJS.Timeout | undefined
  #last = Promise.resolve()
  #delayMs = FIRST_RESPAWN_MS

  constructor(context: ExporterContext) {
    this.#context = context
  }

  /** Puts a configuration into service. A process whose options stay the same stays, and so do its clients. */
  serve(options: Options): Promise<void> {
    const wanted = exporterOptions(options)
    return this.#inTurn(async () => {
      if (JSON.stringify(wanted) === JSON.stringify(this.#options)) return
      await this.#end() // its addresses have to be free
      this.#options = wanted
      if (wanted !== undefined) this.#spawn(wanted)
    })
  }

  /** Resolves when it is gone. */
  stop(): Promise<void> {
    return this.#inTurn(() => this.#end())
  }

  /** Reloads may follow one another faster than a process ends. */
  #inTurn(act: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(act)
    return this.#last
  }

  async #end(): Promise<void> {
    clearTimeout(this.#respawn)
    this.#options = undefined
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise<void>(resolve => child.once('exit', () => resolve()))
    if (child.connected) child.disconnect()
    const timer = setTimeout(() => child.kill('SIGKILL'), END_MS)
    await gone
    clearTimeout(timer)
  }

  #spawn(options: ExporterOptions): void {
    const { events, log } = this.#context
    let child: ChildProcess
    try {
      child = fork(entryFile('exporter'), [], { stdio: ['ignore', log.fd, log.fd, 'ipc'], execArgv: [] })
    } catch (error) {
      return this.#died(options, messageOf(error), 0) // the system has no memory for another process
    }
    this.#child = child
    const startedAt = performance.now()
    child.on('message', message => this.#hear(child, message as FromExporter))
    child.on('error', error => events.emit('exporter-trouble', { message: error.message }))
    child.once('close', (code, signal) => {
      if (this.#child === child)
        this.#died(options, signal ?? `exit code ${code}`, performance.now() - startedAt)
    })
    send(child, { type: 'open', options })
  }

  #died(options: ExporterOptions, how: string, livedMs: number): void {
    if (livedMs > LAST_RESPAWN_MS) this.#delayMs = FIRST_RESPAWN_MS
    const delayMs = this.#delayMs
    this.#delayMs = Math.min(LAST_RESPAWN_MS, delayMs * 2)
    this.#child = undefined
    this.#context.events.emit('exporter-trouble', {
      message: `the exporter died (${how}); it is started again in ${delayMs / 1000} s`,
    })
    this.#respawn = setTimeout(() => this.#spawn(options), delayMs)
  }

  #hear(child: ChildProcess, message: FromExporter): void {
    const { events, snapshot } = this.#context
    switch (message.type) {
      case 'ask':
        return void snapshot().then(taken => send(child, { type: 'snapshot', snapshot: taken }))
      case 'listening':
        return void events.emit('exporter-listening', message)
      case 'alarm':
        return void events.emit('exporter-alarm', { message: message.message })
      case 'trouble':
        return void events.emit('exporter-trouble', { message: message.message })
    }
  }
}

function send(child: ChildProcess, message: ToExporter): void {
  if (child.connected) child.send(message, () => {})
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
