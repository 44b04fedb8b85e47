import { type ChildProcess, fork } from 'node:child_process'
import { messageOf } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { entryFile } from '../../base/package-root.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import type { DashboardOptions, FromDashboard, ToDashboard } from '../dashboard/messages.js'
import type { AlarmMemory } from '../exporter/alarms.js'
import type { ExporterOptions, FromExporter, ToExporter } from '../exporter/messages.js'

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
