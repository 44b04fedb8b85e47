import type { Engine } from '../engines/engine.js'
import type { Emitter } from '../events/emitter.js'
import { isHandled } from '../task/report.js'
import { Feeder } from './feeder.js'
import { IdleTimer } from './idle-timer.js'
import { Roster, type RosterOptions } from './roster.js'
import type { SignalRouter, SignalTeam } from './signal-router.js'
import type { Exit, Reported, WorkerListener } from './worker-listener.js'
import type { WorkerProcess } from './worker-process.js'

export interface PoolOptions extends RosterOptions {
  readonly processes: number
  /** No process while idle. */
  readonly cheap: boolean
}

/** A reload whose first worker is ready. Exactly one of these is to be called. */
export interface Replacement {
  /** Puts it in place: replaces the other workers, one by one. */
  commit(): Promise<void>
  abandon(): void
}

/**
 * The worker processes of one spool: as many as asked, each replaced when it dies, fed from the engine.
 *
 * States: open → stopping (workers drain, nobody is replaced).
 */
export class WorkerPool implements SignalTeam {
  readonly #engine: Engine
  readonly #events: Emitter
  readonly #signals: SignalRouter
  #options: PoolOptions
  readonly #roster: Roster
  readonly #feeder: Feeder
  readonly #idleTimer = new IdleTimer(() => this.#goCheap())

  constructor(options: PoolOptions, engine: Engine, events: Emitter, signals: SignalRouter) {
    this.#options = options
    this.#engine = engine
    this.#events = events
    this.#signals = signals
    signals.join(this)
    this.#roster = new Roster(
      options,
      {
        worker: this.#listener,
        joined: worker => {
          signals.declared(worker, worker.start.news)
          this.dispatch()
        },
        outOfMercy: worker => this.#feeder.outOfMercy(worker),
        exited: (worker, exit) => this.#exited(worker, exit),
        vacant: () => {
          this.#fill()
          this.dispatch()
        },
      },
      events,
    )
    this.#feeder = new Feeder(
      {
        spool: this.spool,
        workers: () => this.workers,
        harakiriMs: () => this.#options.worker.harakiriMs,
        isClosed: () => this.#roster.isClosed,
      },
      engine,
      events,
      signals,
    )
  }

  get spool(): string {
    return this.#options.worker.spool
  }

  get workers(): ReadonlySet<WorkerProcess> {
    return this.#roster.workers
  }

  /**
   * Spawns the workers; resolves when the first is ready.
   *
   * @throws SpooldError HANDLER_UNLOADABLE with what the worker says
   */
  async start(): Promise<void> {
    const { processes, cheap } = this.#options
    const first = Array.from({ length: cheap ? 1 : processes }, () => this.#roster.spawnAside())
    for (const worker of first) this.#roster.takeIn(worker)
    await Promise.race(first.map(({ start }) => start.whenReady))
  }

  /** Gives what is ready to workers with room. To be called when either may be new. */
  dispatch(): void {
    if (this.#roster.isClosed) return
    if (this.#options.cheap) this.#fill()
    this.#feeder.dispatch()
    if (this.#options.cheap) this.#idleTimer.look(this.#load === 0 && this.workers.size > 0)
  }

  /**
   * Starts the first worker of other options, which gets nothing yet. Nothing is changed when it cannot start.
   *
   * @throws SpooldError HANDLER_UNLOADABLE
   */
  async prepare(options: PoolOptions): Promise<Replacement> {
    const first = this.#roster.spawnAside(options)
    await first.start.whenReady
    return { commit: () => this.#replace(first, options), abandon: () => this.#roster.dismiss(first) }
  }

  async #replace(first: WorkerProcess, options: PoolOptions): Promise<void> {
    const old = [...this.workers]
    this.#options = options
    this.#roster.options = options
    this.#roster.takeIn(first)
    for (const worker of old) {
      if (this.#roster.isClosed) return
      void this.#roster.stop(worker)
      await Promise.allSettled(this.#fill().map(({ start }) => start.whenReady))
    }
    this.#fill()
  }

  /** Lets the workers finish what they run, and kills those that do not in time. */
  async stop(): Promise<void> {
    this.#close()
    await this.#roster.stopAll()
  }

  /** Ends everything now. What ran will run again. */
  async kill(): Promise<void> {
    this.#close()
    await this.#roster.killAll()
  }

  #close(): void {
    this.#signals.leave(this)
    this.#feeder.close()
    this.#idleTimer.clear()
  }

  /** In cheap mode there are only as many as there is work for. */
  #fill(): WorkerProcess[] {
    const { cheap, processes } = this.#options
    return this.#roster.fill(cheap ? Math.min(processes, this.#load) : processes)
  }

  /** How much there is to do. */
  get #load(): number {
    const { ready, busy } = this.#engine.counts()
    return ready + busy + this.#signals.loadOf(this)
  }

  get #listener(): WorkerListener<WorkerProcess> {
    const events = this.#events
    const { spool } = this
    return {
      opened: () => this.dispatch(),
      signalled: (worker, message) => this.#signals.hear(worker, message),
      reported: (worker, reported) => this.#reported(worker, reported),
      started: ({ pid }, ref) => events.emit('task-started', { spool, pid, ref }),
      recycling: ({ pid }, tasks) => events.emit('worker-recycling', { spool, pid, tasks }),
      faulted: ({ pid }, error) => events.emit('worker-faulted', { spool, pid, error }),
      exhausted: ({ pid }, error) => events.emit('worker-exhausted', { spool, pid, error }),
      logged: ({ pid }, { type: _, ...said }) => events.emit('task-logged', { spool, pid, ...said }),
      printed: ({ pid }, { type: _, ...piece }) => events.emit('task-printed', { spool, pid, ...piece }),
      deadline: () => this.#feeder.watch(),
      hostDied: (pid, detail) => events.emit('host-died', { spool, pid, detail }),
      stored: (path, bytes) => events.emit('request-stored', { path, bytes }),
    }
  }

  #reported(worker: WorkerProcess, reported: Reported): void {
    this.#feeder.reported(worker, reported)
    if (reported.reports.some(({ kind }) => isHandled(kind) || kind === 'ignore')) this.#roster.progressed()
    this.dispatch()
  }

  #exited(worker: WorkerProcess, exit: Exit): void {
    const { spool, pid } = worker
    const { code, signal, why, isExplained } = exit
    if (why === 'failed' && !isExplained && exit.unforked === undefined) {
      const running = worker.begun.map(({ ref }) => ref)
      this.#events.emit('worker-died', { spool, pid, code, signal, running })
    }
    this.#feeder.exited(worker, exit)
  }

  #goCheap(): void {
    this.#events.emit('spool-cheaped', { spool: this.spool })
    for (const worker of this.workers) this.#roster.dismiss(worker)
  }
}
