import type { Engine } from '../engines/engine.js'
import type { Emitter } from '../events/emitter.js'
import { CutShort } from './cut-short.js'
import { dispatch } from './dispatcher.js'
import type { SpawnOptions } from './fork-worker.js'
import { IdleTimer } from './idle-timer.js'
import { RespawnDelay } from './respawn.js'
import type { SignalRouter, SignalTeam } from './signal-router.js'
import { stopWorker } from './stop-worker.js'
import { Watchdog } from './watchdog.js'
import { type Exit, type Reported, type WorkerListener, WorkerProcess } from './worker-process.js'

export interface PoolOptions extends SpawnOptions {
  readonly processes: number
  /** No process while idle. */
  readonly cheap: boolean
  /** How long a worker that is stopped or replaced may go on with what it runs. */
  readonly mercyMs: number
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
  #isStopping = false
  readonly workers = new Set<WorkerProcess>()
  readonly #watchdog: Watchdog
  readonly #respawnDelay = new RespawnDelay()
  readonly #respawns = new Set<NodeJS.Timeout>()
  readonly #cutShort = new CutShort()
  /** Those that were told to stop. */
  readonly #stopped = new Set<WorkerProcess>()
  readonly #idleTimer = new IdleTimer(() => this.#goCheap())

  constructor(options: PoolOptions, engine: Engine, events: Emitter, signals: SignalRouter) {
    this.#options = options
    this.#engine = engine
    this.#events = events
    this.#signals = signals
    signals.join(this)
    this.#watchdog = new Watchdog({
      harakiriMs: () => this.#options.worker.harakiriMs,
      workers: () => this.workers,
      overran: worker => this.#harakiri(worker),
      silent: worker => {
        this.#engine.abandoned(worker.takeBack())
        this.dispatch()
      },
    })
  }

  /**
   * Spawns the workers; resolves when the first is ready.
   *
   * @throws SpooldError HANDLER_UNLOADABLE with what the worker says
   */
  async start(): Promise<void> {
    const { processes, cheap } = this.#options
    const first = Array.from({ length: cheap ? 1 : processes }, () => this.#spawn())
    await Promise.race(first.map(({ whenReady }) => whenReady))
  }

  /** Gives what is ready to workers with room. To be called when either may be new. */
  dispatch(): void {
    if (this.#isStopping) return
    const engine = this.#engine
    if (this.#options.cheap) this.#fill()
    dispatch([...this.workers], this.#options.worker.concurrency, {
      signalFor: worker => this.#signals.take(worker),
      get ready() {
        return engine.counts().ready
      },
      due: limit => engine.due(limit),
      lastRun: ref => this.#cutShort.of(ref),
    })
    this.#watchdog.look()
    if (this.#options.cheap) this.#idleTimer.look(this.#load === 0 && this.workers.size > 0)
  }

  /**
   * Replaces the workers one by one. When the first new one cannot start, nothing is changed.
   *
   * @throws SpooldError HANDLER_UNLOADABLE
   */
  async reload(options: PoolOptions): Promise<void> {
    const before = this.#options
    const old = [...this.workers]
    this.#options = options
    const first = this.#spawn()
    try {
      await first.whenReady
    } catch (error) {
      this.#options = before
      throw error
    }
    for (const worker of old) {
      if (this.#isStopping) return
      void this.#stopOne(worker)
      await Promise.allSettled(this.#fill().map(({ whenReady }) => whenReady))
    }
    this.#fill()
  }

  /** Lets the workers finish what they run, and kills those that do not in time. */
  async stop(): Promise<void> {
    this.#close()
    await Promise.all([...this.workers].map(worker => this.#stopOne(worker)))
  }

  /** Ends everything now. What ran will run again. */
  async kill(): Promise<void> {
    this.#close()
    for (const worker of this.workers) worker.kill()
    await Promise.all([...this.workers].map(worker => worker.whenExited))
  }

  #close(): void {
    this.#isStopping = true
    this.#signals.leave(this)
    this.#watchdog.close()
    this.#idleTimer.clear()
    for (const timer of this.#respawns) clearTimeout(timer)
  }

  #stopOne(worker: WorkerProcess): Promise<void> {
    const { spool } = this.#options.worker
    this.#stopped.add(worker)
    this.#events.emit('worker-stopping', { spool, pid: worker.pid })
    return stopWorker(worker, this.#options.mercyMs, () => {
      this.#cutShort.byStop(worker)
      this.#events.emit('worker-out-of-mercy', { spool, pid: worker.pid, running: worker.left })
    })
  }

  /** Spawns what is missing to the number asked for; in cheap mode only what there is work for. */
  #fill(): WorkerProcess[] {
    if (this.#isStopping) return []
    const { cheap, processes, worker } = this.#options
    const wanted = cheap ? Math.min(processes, this.#load) : processes
    const present = [...this.workers].filter(({ state }) => state !== 'draining').length + this.#respawns.size
    return Array.from({ length: Math.max(0, wanted - present) }, () => {
      const spawned = this.#spawn()
      spawned.whenReady.catch(error => {
        if (error.code === 'HANDLER_UNLOADABLE')
          this.#events.emit('worker-unloadable', { spool: worker.spool, error: error.message })
      })
      return spawned
    })
  }

  #spawn(): WorkerProcess {
    const { spool } = this.#options.worker
    const worker = new WorkerProcess(this.#options, this.#listener)
    this.workers.add(worker)
    this.#events.emit('worker-spawned', { spool, pid: worker.pid })
    worker.whenReady.then(
      () => this.dispatch(),
      () => {},
    )
    void worker.whenExited.then(exit => this.#exited(worker, exit))
    return worker
  }

  readonly #listener: WorkerListener = {
    ready: (worker, news) => this.#signals.declared(worker, news),
    signalled: (worker, message) => this.#signals.hear(worker, message),
    reported: (worker, reported) => this.#reported(worker, reported),
    started: ({ pid }, ref) => this.#events.emit('task-started', { spool: this.spool, pid, ref }),
    recycling: ({ pid }, tasks) => this.#events.emit('worker-recycling', { spool: this.spool, pid, tasks }),
    faulted: ({ pid }, error) => this.#events.emit('worker-faulted', { spool: this.spool, pid, error }),
    logged: ({ pid }, name, message) =>
      this.#events.emit('task-logged', { spool: this.spool, pid, name, message }),
    deadline: () => this.#watchdog.look(),
    hostDied: (pid, detail) => this.#events.emit('host-died', { spool: this.spool, pid, detail }),
    stored: (path, bytes) => this.#events.emit('request-stored', { path, bytes }),
  }

  get spool(): string {
    return this.#options.worker.spool
  }

  /** How much there is to do. */
  get #load(): number {
    const { ready, busy } = this.#engine.counts()
    return ready + busy + this.#signals.loadOf(this)
  }

  #reported({ pid }: WorkerProcess, { reports, late, known }: Reported): void {
    this.#cutShort.reported(reports)
    this.#engine.returned(reports)
    this.#events.emit('tasks-reported', {
      spool: this.spool,
      pid,
      reports: late.length === 0 ? reports : [...reports, ...late],
      known,
    })
    this.dispatch()
  }

  #harakiri(worker: WorkerProcess): void {
    this.#cutShort.byHarakiri(worker, this.#options.worker.harakiriMs)
    this.#events.emit('worker-overran', {
      spool: this.spool,
      pid: worker.pid,
      running: worker.begun.map(({ ref }) => ref),
    })
    worker.kill()
  }

  #exited(worker: WorkerProcess, exit: Exit): void {
    const { code, signal, wasExpected } = exit
    this.workers.delete(worker)
    const { pid, left } = worker
    const isToldTo = this.#stopped.delete(worker) || this.#isStopping
    if (isToldTo) this.#events.emit('worker-stopped', { spool: this.spool, pid })
    else if (!wasExpected)
      this.#events.emit('worker-died', { spool: this.spool, pid, code, signal, running: left })
    this.#cutShort.byDeath(worker, exit)
    this.#engine.abandoned(left)
    this.#signals.exited(worker)
    this.#respawn(isToldTo || wasExpected ? 0 : this.#respawnDelay.next(worker))
  }

  #respawn(delayMs: number): void {
    if (this.#isStopping) return
    if (delayMs > 0) this.#events.emit('worker-respawn-delayed', { spool: this.spool, delayMs })
    const timer = setTimeout(() => {
      this.#respawns.delete(timer)
      this.#fill()
      this.dispatch()
    }, delayMs)
    this.#respawns.add(timer)
  }

  #goCheap(): void {
    this.#events.emit('spool-cheaped', { spool: this.spool })
    for (const worker of this.workers) void stopWorker(worker, this.#options.mercyMs, () => {})
  }
}
