import { hasFields } from '../../base/json-guard.js'
import { askDaemon, controlSocketsOf } from '../../engines/control/client.js'
import { readSnapshot } from '../../runtime/stats/read-snapshot.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { History } from './models/history.js'

/** A snapshot is shared for this time, so that any number of viewers asks the daemon no more often. */
const SHARED_MS = 200
/** The daemon is asked at this interval even while nobody looks at a page, so that charts have a past. */
const WATCH_MS = 5000

/** How the dashboard asks its daemon: through a control socket, as every other client does. */
export class DaemonLink {
  readonly #controls: readonly string[]
  readonly #pid: number
  readonly history = new History()
  #asked: { readonly snapshot: Promise<DaemonSnapshot>; readonly untilMs: number } | undefined

  /**
   * @param controls real paths of the directories with control sockets: spools, and control homes of spools on Redis
   * @param pid the daemon to ask, because several daemons may have sockets there
   */
  constructor(controls: readonly string[], pid: number) {
    this.#controls = controls
    this.#pid = pid
  }

  /** Starts to add a snapshot to the history every WATCH_MS. */
  watch(): void {
    const add = (snapshot: DaemonSnapshot) => this.history.add(snapshot)
    setInterval(() => void this.snapshot().then(add, () => {}), WATCH_MS).unref()
  }

  /** Returns a snapshot that was asked for within the last SHARED_MS. @throws Error for people, if the daemon does not answer */
  snapshot(): Promise<DaemonSnapshot> {
    if (this.#asked === undefined || performance.now() >= this.#asked.untilMs)
      this.#asked = { snapshot: this.#take(), untilMs: performance.now() + SHARED_MS }
    return this.#asked.snapshot
  }

  /**
   * Returns the daemon's answer to a request whose answer has a `pid`. Answers of other daemons are passed over.
   *
   * @throws Error for people
   */
  async ask(verb: string, args: object): Promise<unknown> {
    for (const path of this.#sockets()) {
      const answer = await askDaemon(path, verb, args).catch(() => undefined)
      if (hasFields(answer, { pid: 'count' }, {}) && (answer as { pid: number }).pid === this.#pid)
        return answer
    }
    throw new Error(`the daemon does not answer ${verb}`)
  }

  /** Takes a snapshot. Sockets come and go, so they are listed each time. `pid` decides, as several daemons may run one spool. */
  async #take(): Promise<DaemonSnapshot> {
    for (const path of this.#sockets()) {
      const snapshot = readSnapshot(await askDaemon(path, 'snapshot', {}).catch(() => undefined))
      if (snapshot?.daemon.pid === this.#pid) return snapshot
    }
    throw new Error('the daemon does not answer')
  }

  *#sockets(): Generator<string> {
    for (const directory of this.#controls)
      try {
        yield* controlSocketsOf(directory)
      } catch {} // .spoold is gone, belongs to somebody else than the spool, or is closed to us
  }
}
