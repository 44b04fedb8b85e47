import type { Emitter } from '../../base/events/emitter.js'
import type { TaskName } from '../../base/task/ref.js'
import { nameOf, type Report } from '../../base/task/report.js'
import type { Master } from '../../runtime/supervisor/master.js'

/** How the last run of a task ended if not with SPOOL_OK. */
const UNFINISHED_KINDS = [
  'retry',
  'error',
  'crash',
  'buried',
  'unsettled',
  'ignore',
  'unreadable',
  'incomplete', // a drain does not wait for the writer
] as const
type Unfinished = (typeof UNFINISHED_KINDS)[number]

/** Shows people the progress of a drain. */
export interface DrainProgress {
  /** A line is about to be logged to the same terminal. */
  logged(): void
  /** @param left the number of due tasks that have not ended */
  show(done: number, left: number): void
}

const SHOWN_EVERY_MS = 200

/** The exit code if a due task did not end with SPOOL_OK, is paused or unknown, or the drain was stopped early. */
const EXIT_UNFINISHED = 3

/**
 * `--drain`: records how the tasks ended. For a task that ran more than once, the last run counts.
 *
 * States: off; or draining → over.
 */
export class Drain {
  readonly #events: Emitter
  readonly #progress: DrainProgress | undefined
  readonly #unfinished = new Map<string, Unfinished>()
  #done = 0
  #paused = 0
  #unknown = 0
  #state: 'off' | 'draining' | 'over' = 'off'

  constructor(events: Emitter, isOn: boolean, progress?: DrainProgress) {
    this.#events = events
    this.#progress = progress
    if (!isOn) return
    this.#state = 'draining'
    events.on('tasks-reported', ({ spool, done, reports }) => {
      this.#done += done.length
      if (this.#unfinished.size > 0) for (const name of done) this.#unfinished.delete(keyOf(spool, name))
      for (const report of reports) this.#ended(spool, report)
    })
    // what is due there is not known
    events.on('spool-unreachable', ({ spool, isLasting }) => {
      if (isLasting) this.#unfinished.set(keyOf(spool, ''), 'unreadable')
    })
    events.on('spool-reached', ({ spool }) => {
      this.#unfinished.delete(keyOf(spool, ''))
    })
    events.on('spool-list-failed', ({ spool, prefix }) => {
      this.#unfinished.set(keyOf(spool, prefix), 'unreadable')
    })
    events.on('spool-list-back', ({ spool, prefix }) => {
      this.#unfinished.delete(keyOf(spool, prefix))
    })
    // innocent tasks run again, and their next run counts
    for (const end of ['worker-died', 'worker-faulted', 'worker-unfit'] as const)
      events.on(end, ({ spool, running }) => {
        for (const name of running) this.#unfinished.set(keyOf(spool, name), 'crash')
      })
  }

  /** 0 if every due task ended with SPOOL_OK, or if there was no drain. */
  get exitCode(): number {
    if (this.#state === 'off') return 0
    return this.#state === 'over' && this.#unfinished.size + this.#paused + this.#unknown === 0
      ? 0
      : EXIT_UNFINISHED
  }

  /** Resolves when every due task that can be known has run, or when the master is stopped. */
  async run(
    master: Pick<Master, 'whenDrained' | 'isStopping' | 'paused' | 'unknown' | 'counts'>,
    isIdle: () => boolean,
  ): Promise<void> {
    const show = () => this.#progress?.show(this.#done, master.counts.ready + master.counts.busy)
    const timer = this.#progress === undefined ? undefined : setInterval(show, SHOWN_EVERY_MS)
    await master.whenDrained(isIdle)
    clearInterval(timer)
    if (master.isStopping) return
    this.#state = 'over'
    this.#paused = master.paused
    this.#unknown = master.unknown
    const kinds = [...this.#unfinished.values()]
    const counts = UNFINISHED_KINDS.map(kind => [kind, kinds.filter(each => each === kind).length] as const)
    this.#events.emit('daemon-drained', {
      done: this.#done,
      unfinished: { ...Object.fromEntries(counts), paused: this.#paused, unknown: this.#unknown },
    })
  }

  #ended(spool: string, report: Report): void {
    const key = keyOf(spool, nameOf(report))
    switch (report.kind) {
      case 'ok':
        this.#done++
        this.#unfinished.delete(key)
        return
      case 'gone': // another process ran or removed it
        return this.#forget(key)
      case 'set-aside':
        this.#unfinished.set(key, 'buried')
        return
      case 'later': // a detail means that the task's interpreter died, which no event of a worker tells
        if (report.detail !== undefined) this.#unfinished.set(key, 'crash')
        return
      case 'malformed': // without a time it is left alone for good, and counts as no task
        if (report.atMs === undefined) this.#forget(key)
        else this.#unfinished.set(key, 'unreadable')
        return
      default: {
        const unfinished = UNFINISHED_KINDS.find(each => each === report.kind)
        if (unfinished !== undefined) this.#unfinished.set(key, unfinished)
      }
    }
  }

  /** Forgets a task that is gone, unless it is gone because it was buried here. */
  #forget(key: string): void {
    if (this.#unfinished.get(key) !== 'buried') this.#unfinished.delete(key)
  }
}

function keyOf(spool: string, name: TaskName): string {
  return `${spool}/${name}`
}
