import { realpathSync } from 'node:fs'
import type { Emitter } from '../../base/events/emitter.js'
import type { LoadedProcess, PeriodicTask, SignalNews, SignalSchedule } from '../../base/task/schedule.js'
import type { SignalMessage } from '../ipc/messages.js'
import type { WorkerProcess } from './worker-process.js'

/** The processes of one spool, as receivers of signals. */
export interface SignalReceivers {
  readonly spool: string
  readonly workers: ReadonlySet<WorkerProcess>
  /** True if nothing may be started: signals wait. */
  readonly isHalted: boolean
  /** Call it when a signal may be waiting for one of the workers. */
  dispatch(): void
}

interface SignalRouterListener {
  /**
   * All schedules and periodic tasks that the handlers of this spool declared while they were loaded, and what they changed in their
   * processes. They replace those of earlier calls.
   */
  declared(
    spool: string,
    schedules: readonly SignalSchedule[],
    periodic: readonly PeriodicTask[],
    processes: readonly LoadedProcess[],
  ): void
  /** A schedule that was requested after loading. */
  added(schedule: SignalSchedule): void
}

/** A signal that no process has been given yet. */
interface Waiting {
  readonly number: number
  /** The spool whose processes may take the signal; null: any spool. */
  readonly spool: string | null
  /** The only process that may take the signal; null: whichever has room. */
  readonly worker: WorkerProcess | null
}

/** Roughly as many as uWSGI's pipe holds. */
const MAX_WAITING = 1024

/**
 * Brings signals to the processes that handle them. A signal waits here until a process has room for it, so that a slow task does
 * not hold it up, and its handler never runs twice at once.
 */
export class SignalRouter {
  readonly #events: Emitter
  readonly #listener: SignalRouterListener
  readonly #teams = new Set<SignalReceivers>()
  /** By spool, the targets of the signals that its newest process has handlers for. */
  readonly #targets = new Map<string, ReadonlyMap<number, string>>()
  #waiting: Waiting[] = []

  constructor(events: Emitter, listener: SignalRouterListener) {
    this.#events = events
    this.#listener = listener
  }

  join(team: SignalReceivers): void {
    this.#teams.add(team)
  }

  leave(team: SignalReceivers): void {
    this.#teams.delete(team)
    if (this.#spools.includes(team.spool)) return // its successor has joined
    this.#targets.delete(team.spool)
    this.#listener.declared(team.spool, [], [], [])
  }

  /**
   * @param isOnce true: the signal is not queued again if it is waiting already
   * @returns false if there is no room for the signal. A signal without a handler is accepted and dropped, as in uWSGI
   */
  raise(number: number, isOnce = false): boolean {
    const target = this.#targetOf(number)
    if (target === undefined) {
      this.#events.emit('signal-unhandled', { number })
      return true
    }
    const hasRoom = this.#route(number, target, isOnce)
    if (!hasRoom) this.#events.emit('signals-full', { number, limit: MAX_WAITING })
    this.#dispatch()
    return hasRoom
  }

  /** True if no signal runs, and none waits except for the end of a pause. */
  get isIdle(): boolean {
    const isHeldUp = ({ number, spool }: Waiting) => this.#isHalted(spool ?? this.#homeOf(number))
    return this.#waiting.every(isHeldUp) && this.#workers.every(({ work }) => work.signals.size === 0)
  }

  #isHalted(spool: string | undefined): boolean {
    const teams = [...this.#teams].filter(team => team.spool === spool)
    return teams.length > 0 && teams.every(({ isHalted }) => isHalted)
  }

  /** Takes a signal for a worker that has room. The signal then counts as given. */
  take(worker: WorkerProcess): number | undefined {
    if (this.#waiting.length === 0) return undefined
    const at = this.#waiting.findIndex(waiting => this.#suits(waiting, worker))
    return this.#waiting.splice(at, at === -1 ? 0 : 1)[0]?.number
  }

  /** The spool that the signal is for; undefined: no particular one. */
  spoolOf(number: number): string | undefined {
    const audience = audienceOf(this.#targetOf(number) ?? '', this.#spools, [])
    return audience.kind === 'one' ? (audience.spool ?? undefined) : undefined
  }

  /** The number of signals that wait for a spool or run there. */
  loadOf({ spool, workers }: SignalReceivers): number {
    const waiting = this.#waiting.filter(each => (each.spool ?? this.#homeOf(each.number)) === spool).length
    return [...workers].reduce((sum, { work }) => sum + work.signals.size, waiting)
  }

  /** Call it when handlers are loaded. @param worker the one that has loaded them; undefined: that of another spool has the same */
  declared(spool: string, news: readonly SignalNews[], worker?: WorkerProcess): void {
    const targets = new Map<number, string>()
    const schedules: SignalSchedule[] = []
    const periodic: PeriodicTask[] = []
    const processes: LoadedProcess[] = []
    const raised: number[] = []
    for (const each of news)
      if (each.kind === 'handler') targets.set(each.number, each.target)
      else if (each.kind === 'raise') raised.push(each.number)
      else if (each.kind === 'periodic') periodic.push(each)
      else if (each.kind === 'process') processes.push(each)
      else schedules.push(each)
    for (const [number, target] of targets) this.#register(spool, number, target)
    for (const number of targets.keys()) worker?.work.signals.handled.add(number)
    this.#targets.set(spool, targets)
    this.#listener.declared(spool, schedules, periodic, processes)
    if (worker !== undefined) for (const number of raised) this.raise(number)
  }

  hear(worker: WorkerProcess, message: SignalMessage): void {
    switch (message.type) {
      case 'signal-news':
        return this.#hearNews(worker, message.news)
      case 'signal-started':
        return worker.work.signals.start(message.number)
      case 'signal-returned':
        worker.work.signals.remove(message.number)
        this.#again(message.number)
        return this.#dispatch()
      case 'signal-ended': {
        const { number, error } = message
        worker.work.signals.remove(number)
        if (error !== undefined)
          this.#events.emit('signal-failed', { spool: worker.spool, pid: worker.pid, number, error })
        this.#dispatch()
      }
    }
  }

  /** Signals that a dead worker had not begun go to another worker. Signals that it was running are lost, as in uWSGI. */
  exited(worker: WorkerProcess): void {
    const { spool, pid } = worker
    const { signals } = worker.work
    this.#waiting = this.#waiting.filter(({ worker: only }) => only !== worker)
    for (const number of signals.running)
      this.#events.emit('signal-failed', { spool, pid, number, error: 'its process ended' })
    for (const number of signals.waiting) this.#again(number)
  }

  #hearNews({ spool, work }: WorkerProcess, news: SignalNews): void {
    if (news.kind === 'raise') return void this.raise(news.number)
    if (news.kind === 'periodic' || news.kind === 'process') return // told only while handlers are loaded
    if (news.kind !== 'handler') return this.#listener.added(news)
    work.signals.handled.add(news.number)
    this.#register(spool, news.number, news.target)
    this.#targets.set(spool, new Map(this.#targets.get(spool)).set(news.number, news.target))
  }

  #register(spool: string, number: number, target: string): void {
    if (this.#targets.get(spool)?.get(number) !== target)
      this.#events.emit('signal-registered', { spool, number, target })
  }

  /** @returns false when there is no room */
  #route(number: number, target: string, isOnce: boolean): boolean {
    const audience = audienceOf(target, this.#spools, this.#workers)
    switch (audience.kind) {
      case 'none':
        this.#events.emit('signal-unroutable', { target, because: audience.because })
        return true
      case 'one':
        return this.#wait({ number, spool: audience.spool, worker: null }, isOnce)
      case 'each': {
        const able = audience.workers.filter(({ work }) => work.signals.handled.has(number))
        return able.map(worker => this.#wait({ number, spool: null, worker }, isOnce)).every(Boolean)
      }
    }
  }

  #wait(waiting: Waiting, isOnce: boolean): boolean {
    const isThere = ({ number, worker }: Waiting) => number === waiting.number && worker === waiting.worker
    if (isOnce && (this.#waiting.some(isThere) || this.#isGiven(waiting))) return true
    if (this.#waiting.length >= MAX_WAITING) return false
    this.#waiting.push(waiting)
    return true
  }

  /** True if a process was given the signal and has not begun it: it may hand the signal back. */
  #isGiven({ number, worker: only }: Waiting): boolean {
    const workers = only === null ? this.#workers : [only]
    return workers.some(({ work }) => work.signals.waiting.includes(number))
  }

  /**
   * Requeues a signal that a worker handed back without having begun it. A signal for that worker alone is dropped.
   */
  #again(number: number): void {
    const target = this.#targetOf(number)
    if (target === undefined) return
    const audience = audienceOf(target, this.#spools, this.#workers)
    if (audience.kind === 'one') this.#waiting.unshift({ number, spool: audience.spool, worker: null })
  }

  #dispatch(): void {
    for (const team of this.#teams) team.dispatch()
  }

  #suits({ number, spool, worker: only }: Waiting, worker: WorkerProcess): boolean {
    if (!worker.work.signals.handled.has(number) || (spool ?? worker.spool) !== worker.spool) return false
    if (only !== null) return only === worker && !worker.work.signals.has(number)
    return !this.#workers.some(({ work }) => work.signals.has(number))
  }

  #targetOf(number: number): string | undefined {
    return this.#targets.get(this.#homeOf(number) ?? '')?.get(number)
  }

  /** The first spool whose processes handle the signal. */
  #homeOf(number: number): string | undefined {
    return this.#spools.find(spool => this.#targets.get(spool)?.has(number))
  }

  get #spools(): string[] {
    return [...this.#teams].map(({ spool }) => spool)
  }

  get #workers(): WorkerProcess[] {
    return [...this.#teams].flatMap(({ workers }) => [...workers])
  }
}

/** The processes that handle a signal: one of all processes, one of a spool's processes, or each of these. */
type Audience =
  | { readonly kind: 'one'; readonly spool: string | null }
  | { readonly kind: 'each'; readonly workers: readonly WorkerProcess[] }
  | { readonly kind: 'none'; readonly because: 'unsupported' | 'invalid' }

/**
 * Resolves a target (uWSGI: core/signal.c, uwsgi_route_signal). uWSGI's workers serve requests and do not exist here,
 * so the processes of the spools answer to their names: spools in their order, and the oldest process of each first.
 * Mules and farms do not exist either, so any one process does their work. A directory as a target is documented in
 * uWSGI's manual, but uWSGI does not implement it.
 */
function audienceOf(target: string, spools: readonly string[], workers: readonly WorkerProcess[]): Audience {
  const isForOther = /^(mules?|mule[0-9]+|farm_.*)$/s.test(target)
  if (isForOther || ['', 'spooler', 'worker', 'worker0'].includes(target)) return { kind: 'one', spool: null }
  if (['workers', 'active-workers'].includes(target)) return { kind: 'each', workers }
  const [, position] = /^worker([0-9]+)$/.exec(target) ?? []
  if (position !== undefined) {
    const worker = workers[Number(position) - 1]
    return worker === undefined ? { kind: 'none', because: 'invalid' } : { kind: 'each', workers: [worker] }
  }
  if (!target.startsWith('/')) return { kind: 'none', because: 'unsupported' }
  const spool = spools.includes(target) ? target : realPath(target)
  return spools.includes(spool) ? { kind: 'one', spool } : { kind: 'none', because: 'unsupported' }
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
