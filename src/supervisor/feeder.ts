import type { Engine } from '../engines/engine.js'
import type { Emitter } from '../events/emitter.js'
import type { Ref } from '../task/ref.js'
import { CutShort } from './cut-short.js'
import { dispatch } from './dispatcher.js'
import type { SignalRouter } from './signal-router.js'
import { Watchdog } from './watchdog.js'
import type { Exit, Reported } from './worker-listener.js'
import type { WorkerProcess } from './worker-process.js'

export interface FeederOptions {
  readonly spool: string
  workers(): Iterable<WorkerProcess>
  harakiriMs(): number
  /** Nothing is given to anybody any more. */
  isClosed(): boolean
}

/** What killed its process lets others go first for so long, so that it starves nobody. */
const YIELD_MS = 1000

/** Who has what: gives the workers of a pool what the engine has, takes it back, and watches over deadlines. */
export class Feeder {
  readonly #options: FeederOptions
  readonly #engine: Engine
  readonly #events: Emitter
  readonly #signals: SignalRouter
  readonly #watchdog: Watchdog
  readonly #cutShort = new CutShort()

  constructor(options: FeederOptions, engine: Engine, events: Emitter, signals: SignalRouter) {
    this.#options = options
    this.#engine = engine
    this.#events = events
    this.#signals = signals
    this.#watchdog = new Watchdog({
      harakiriMs: () => options.harakiriMs(),
      workers: () => options.workers(),
      overran: worker => this.#harakiri(worker),
      slow: worker => {
        engine.abandoned(worker.cancel())
        this.dispatch()
      },
    })
  }

  /** Gives what is ready to workers with room. To be called when either may be new. */
  dispatch(): void {
    if (this.#options.isClosed()) return
    const engine = this.#engine
    dispatch(this.#options.workers(), {
      signalFor: worker => this.#signals.take(worker),
      get ready() {
        return engine.counts().ready
      },
      due: limit => engine.due(limit),
      lastRun: ref => this.#cutShort.of(ref),
    })
    this.#watchdog.look()
  }

  /** To be called when a deadline has changed. */
  watch(): void {
    this.#watchdog.look()
  }

  reported({ pid }: WorkerProcess, { reports, late, known }: Reported): void {
    this.#cutShort.reported(reports)
    this.#engine.returned(reports)
    this.#events.emit('tasks-reported', {
      spool: this.#options.spool,
      pid,
      reports: late.length === 0 ? reports : [...reports, ...late],
      known,
    })
  }

  /** It is about to be killed because it was replaced or stopped, and its mercy is over. */
  outOfMercy(worker: WorkerProcess): void {
    this.#cutShort.byStop(worker)
    const { spool } = this.#options
    this.#events.emit('worker-out-of-mercy', { spool, pid: worker.pid, running: refsOf(worker.begun) })
  }

  exited(worker: WorkerProcess, exit: Exit): void {
    this.#cutShort.byDeath(worker, exit)
    this.#signals.exited(worker)
    if (exit.why !== 'failed' || exit.isExplained) return this.#engine.abandoned(worker.left)
    const begun = new Set(refsOf(worker.begun))
    this.#engine.abandoned(worker.left.filter(ref => !begun.has(ref)))
    this.#yield(worker.left.filter(ref => begun.has(ref)))
  }

  close(): void {
    this.#watchdog.close()
  }

  #yield(refs: readonly Ref[]): void {
    if (refs.length === 0) return
    const giveBack = () => {
      this.#engine.abandoned(refs)
      this.dispatch()
    }
    if (this.#engine.counts().ready === 0) giveBack()
    else setTimeout(giveBack, YIELD_MS).unref()
  }

  #harakiri(worker: WorkerProcess): void {
    this.#cutShort.byHarakiri(worker, this.#options.harakiriMs())
    const { spool } = this.#options
    this.#events.emit('worker-overran', { spool, pid: worker.pid, running: refsOf(worker.begun) })
    worker.kill()
  }
}

function refsOf(begun: WorkerProcess['begun']): Ref[] {
  return begun.map(({ ref }) => ref)
}
