import type { Emitter } from '../../base/events/emitter.js'
import type { RespawnPace } from '../../base/respawn-pace.js'
import { isHandled, type Looker, type Report } from '../../base/task/report.js'
import type { Source } from '../../engines/feed.js'
import type { Cancellations } from './cancellations.js'
import { Feeder } from './feeder.js'
import type { LastRuns } from './last-runs.js'
import { Roster, type RosterOptions } from './roster.js'
import type { SignalRouter } from './signal-router.js'
import type { Supply } from './supply.js'
import type { Withdrawals } from './withdrawals.js'
import type { Reported } from './worker-port.js'
import type { WorkerListener, WorkerProcess } from './worker-process.js'

export interface GroupContext {
  readonly events: Emitter
  readonly signals: SignalRouter
  readonly feed: Source
  readonly supply: Supply
  readonly lastRuns: LastRuns
  readonly pace: RespawnPace
  readonly cancellations: Cancellations
  readonly withdrawals: Withdrawals
  readonly looker: Looker | undefined
  /** Nothing is to be started. */
  isHalted(): boolean
  /** The worker is ready. */
  joined(worker: WorkerProcess): void
  /** A task may now be given to a worker. */
  dispatch(): void
  /** There may be fewer workers than the target. */
  vacant(): void
  /** So many tasks have ended. */
  progressed(count: number): void
}

/** Workers with a common source of tasks: a roster, a feeder, and the events of both. */
export class Group {
  readonly roster: Roster
  readonly feeder: Feeder
  readonly #context: GroupContext
  readonly #spool: string

  constructor(options: RosterOptions, context: GroupContext) {
    const { events, pace } = context
    this.#context = context
    this.#spool = options.worker.spool
    this.roster = new Roster(
      options,
      {
        worker: this.#listener(),
        joined: context.joined,
        outOfMercy: worker => this.feeder.outOfMercy(worker),
        exited: (...how) => this.feeder.exited(...how),
        vacant: context.vacant,
      },
      pace,
      events,
    )
    this.feeder = new Feeder({ ...context, roster: this.roster, spool: this.#spool })
  }

  #listener(): WorkerListener {
    const { feed, signals, cancellations, dispatch } = this.#context
    return {
      opened: dispatch,
      signalled: (worker, message) => signals.hear(worker, message),
      reported: (worker, reported) => this.#reported(worker, reported),
      claimed: refs => feed.report({ claimed: refs }),
      dropped: refs => this.feeder.dropped(refs),
      cancelling: (worker, message) => cancellations.answered(worker, message),
      deadline: () => this.feeder.watch(),
    }
  }

  #reported(worker: WorkerProcess, reported: Reported): void {
    this.feeder.reported(worker, reported)
    const ended = reported.done.length + reported.reports.filter(hasEnded).length
    if (ended > 0) this.#context.progressed(ended)
    this.#context.dispatch()
  }
}

/** `gone` counts: the task ended in another worker, or in one that died before it could report. */
function hasEnded({ kind }: Report): boolean {
  return isHandled(kind) || kind === 'ignore' || kind === 'gone'
}
