import { hasFields } from '../../base/json-guard.js'
import { askDaemon, controlSocketsOf } from '../../engines/control/client.js'
import { readSnapshot } from '../../runtime/stats/read-snapshot.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { History } from './models/history.js'

/** However many look at pages, the daemon is asked this often at most. */
const SHARED_MS = 200
/** How often it is asked while nobody looks, so that charts have a past. */
const WATCH_MS = 5000

/** What the dashboard asks of its daemon: through a control socket, as every other client. */
export class DaemonLink {
  readonly #controls: readonly string[]
  readonly #pid: number
  readonly history = new History()
  #asked: { readonly snapshot: Promise<DaemonSnapshot>; readonly untilMs: number } | undefined

  /** @param controls real paths of directories with control sockets: spools, or homes @param pid which daemon, of those that run them */
  constructor(controls: readonly string[], pid: number) {
    this.#controls = controls
    this.#pid = pid
  }

  /** From now on, charts have figures. */
  watch(): void {
    const add = (snapshot: DaemonSnapshot) => this.history.add(snapshot)
    setInterval(() => void this.snapshot().then(add, () => {}), WATCH_MS).unref()
  }

  /** @throws Error for people, when it does not answer */
  snapshot(): Promise<DaemonSnapshot> {
    if (this.#asked === undefined || performance.now() >= this.#asked.untilMs)
      this.#asked = { snapshot: this.#take(), untilMs: performance.now() + SHARED_MS }
    return this.#asked.snapshot
  }

  /**
   * Asks for something whose answer has the daemon's `pid`.
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

  /** Its sockets come and go, so they are looked up each time; several daemons may run one spool. */
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
      } catch {} // its .spoold is gone, or not ours
  }
}
