import { type ChildProcess, fork } from 'node:child_process'
import { messageOf, quietly } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { entryFile } from '../../base/package-root.js'
import type { Options } from '../../formats/config/option-table.js'
import { parseAddress } from '../../formats/protocol/address.js'
import { keysOf } from '../../formats/protocol/hide.js'
import { isRedisAddress, redisAddressOf } from '../../formats/protocol/redis-address.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import type { DashboardOptions, FromDashboard, ToDashboard } from '../dashboard/messages.js'
import type { AlarmMemory } from '../exporter/alarms.js'
import type { ExporterOptions, FromExporter, PushOptions, ToExporter } from '../exporter/messages.js'
import { parseAlarm } from '../net/alarm-target.js'
import { needsInsecure } from '../net/check.js'
import { parseDashboard } from '../net/dashboard-address.js'
import { parseHostPort, parsePush } from '../net/stats-push.js'

interface HttpSurroundings {
  readonly events: Emitter
  readonly log: { readonly fd: number }
}

type Exporter = HttpProcess<ExporterOptions, FromExporter, ToExporter>
type Dashboard = HttpProcess<DashboardOptions, FromDashboard, ToDashboard>

/** The process that publishes the daemon's snapshot. */
export function openExporter(
  { events, log }: HttpSurroundings,
  snapshot: () => Promise<DaemonSnapshot>,
): Exporter {
  let alarmMemory: AlarmMemory = [] // handed on to the next process
  const trouble = (message: string) => events.emit('exporter-trouble', { message })
  return new HttpProcess<ExporterOptions, FromExporter, ToExporter>({
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

/** The process of the dashboard. It never runs as root, because what it reads and changes belongs to the user of the spools. */
export function openDashboard({ events, log }: HttpSurroundings): Dashboard {
  const trouble = (message: string) => events.emit('dashboard-trouble', { message })
  return new HttpProcess<DashboardOptions, FromDashboard, ToDashboard>({
    name: 'dashboard',
    log,
    open: options => ({ type: 'open', options }),
    hear(message) {
      if (message.type === 'trouble') trouble(message.message)
      else events.emit('dashboard-listening', { address: message.address })
    },
    trouble,
  })
}

interface HttpContext<Wanted, Heard, Said extends object> {
  /** The name of the process: its entry file, and what messages call it. */
  readonly name: 'exporter' | 'dashboard'
  readonly log: { readonly fd: number }
  /** The first message to the process. */
  open(wanted: Wanted): Said
  hear(message: Heard, answer: (message: Said) => void): void
  /** Called when something does not work and is tried again; for the log. */
  trouble(message: string): void
}

/** A process that keeps dying is started less and less often, down to once per minute. */
const FIRST_RESPAWN_MS = 1000
const LAST_RESPAWN_MS = 60_000
/** A crowd of short requests leaves holes in each of the heaps that glibc's malloc has for threads: one heap has fewer holes. */
const ONE_ARENA = { MALLOC_ARENA_MAX: '1' }
/** How long the process may take to end: it only closes sockets, and awaits answers that are on their way. */
const END_MS = 1000

/** A process that serves HTTP beside the daemon, so that its death and its load are not the daemon's. */
class HttpProcess<Wanted extends object, Heard, Said extends object> {
  readonly #context: HttpContext<Wanted, Heard, Said>
  #wanted: Wanted | undefined
  #child: ChildProcess | undefined
  #respawn: NodeJS.Timeout | undefined
  #last = Promise.resolve()
  #delayMs = FIRST_RESPAWN_MS

  constructor(context: HttpContext<Wanted, Heard, Said>) {
    this.#context = context
  }

  /**
   * Puts options into service; undefined: none. Resolves when the process that served other options is gone. If the options stay
   * the same, the process and its clients stay.
   */
  serve(wanted: Wanted | undefined): Promise<void> {
    // several reloads may come before a process has ended
    this.#last = this.#last.then(async () => {
      if (JSON.stringify(wanted) === JSON.stringify(this.#wanted)) return
      this.#wanted = wanted
      await this.#end() // the addresses have to be free
      if (wanted !== undefined) this.#spawn(wanted)
    })
    return this.#last
  }

  async #end(): Promise<void> {
    clearTimeout(this.#respawn)
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const heard = (event: string) => new Promise<void>(resolve => child.once(event, () => resolve()))
    const gone = Promise.all([heard('exit'), child.connected && heard('disconnect')]) // all that it said is heard by then
    send(child, { type: 'close' }) // doors/http/aside.ts hears it
    const timer = setTimeout(() => child.kill('SIGKILL'), END_MS)
    await gone
    clearTimeout(timer)
  }

  #spawn(wanted: Wanted): void {
    const { name, log, open, hear, trouble } = this.#context
    let child: ChildProcess
    try {
      child = fork(entryFile(name), [], {
        ...{ stdio: ['ignore', log.fd, log.fd, 'ipc'], execArgv: [] },
        env: { ...process.env, ...ONE_ARENA },
      })
    } catch (error) {
      return this.#died(wanted, messageOf(error), 0) // for example, no memory for another process
    }
    this.#child = child
    const startedAt = performance.now()
    const answer = (message: Said) => send(child, message)
    child.on('message', message => hear(message as Heard, answer))
    child.on('error', error => trouble(error.message))
    child.once('close', (code, signal) => {
      if (this.#child === child)
        this.#died(wanted, signal ?? `exit code ${code}`, performance.now() - startedAt)
    })
    send(child, open(wanted))
  }

  #died(wanted: Wanted, how: string, livedMs: number): void {
    if (livedMs > LAST_RESPAWN_MS) this.#delayMs = FIRST_RESPAWN_MS
    const delayMs = this.#delayMs
    this.#delayMs = Math.min(LAST_RESPAWN_MS, delayMs * 2)
    this.#child = undefined
    const { name, trouble } = this.#context
    trouble(`the ${name} died (${how}); it is started again in ${delayMs / 1000} s`)
    this.#respawn = setTimeout(() => this.#spawn(wanted), delayMs)
  }
}

function send(child: ChildProcess, message: object): void {
  if (child.connected) child.send(message, () => {})
}

/** @returns undefined if there is nothing to publish */
export function exporterOptions(options: Options): ExporterOptions | undefined {
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

/** What the exporter pushes, and to where. */
function pushOptions(options: Options): PushOptions[] {
  const { statsPush, carbon } = options
  const pushes = statsPush.flatMap(text => pushTo(text, options))
  return carbon.length === 0 ? pushes : [...pushes, carbonPush(options)]
}

/** @returns undefined for a destination that only uWSGI knows; the check of the configuration has warned about it */
function pushTo(text: string, options: Options): PushOptions[] {
  const target = quietly(() => parsePush(text))
  if (target === undefined) return []
  const { statsPusherDefaultFreqMs, statsNoCores, statsMinified, statsdNoWorkers, statsdAllGauges } = options
  const shared = { everyMs: statsPusherDefaultFreqMs, withCores: !statsNoCores }
  if (target.kind === 'file')
    return [{ ...shared, ...target, everyMs: target.everyMs ?? shared.everyMs, isMinified: statsMinified }]
  return [{ ...shared, ...target, withWorkers: !statsdNoWorkers, allGauges: statsdAllGauges }]
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

/**
 * @param spools those that the daemon runs: real paths, and names on Redis
 * @param controls the directories with its control sockets
 * @param resolve resolves a path of the configuration
 * @returns undefined: there is nothing to show
 */
export function dashboardOptions(
  { spoolerDashboard, spoolerDashboardTokens: tokens, spoolerDashboardEnqueue, spoolerHide }: Options,
  spools: readonly string[],
  controls: readonly string[],
  resolve: (path: string) => string,
): DashboardOptions | undefined {
  if (spoolerDashboard.length === 0) return undefined
  const addresses = spoolerDashboard.map(text => {
    const parsed = parseDashboard(text)
    const isPath = parseAddress(parsed.address).kind === 'unix'
    return isPath ? { ...parsed, address: resolve(parsed.address) } : parsed
  })
  return {
    addresses,
    tokensFile: tokens === null ? null : resolve(tokens),
    allowsNewWork: spoolerDashboardEnqueue,
    hide: keysOf(spoolerHide),
    spools,
    redisAddresses: spools.filter(isRedisAddress).map(redisAddressOf),
    controls,
    pid: process.pid,
  }
}
