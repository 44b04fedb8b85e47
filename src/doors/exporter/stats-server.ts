import type { Socket } from 'node:net'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { Clients } from '../http/clients.js'
import { HttpServer } from './http-server.js'
import type { StatsOptions } from './messages.js'
import { Rendered } from './rendered.js'
import { printed, uwsgiStats } from './uwsgi-stats.js'

/** A client that takes longer to read its answer is disconnected; `socket-timeout` in uWSGI. */
const DEADLINE_MS = 4000

/** uWSGI's stats server: to whoever connects it sends its JSON, with `stats-http` as an HTTP answer, and hangs up. */
export class StatsServer {
  readonly #document: Rendered
  readonly #http: HttpServer | undefined
  readonly #clients = new Clients()

  /** @param snapshot rejects when the daemon does not answer */
  constructor(options: StatsOptions, snapshot: () => Promise<DaemonSnapshot>) {
    const { withCores, isMinified, isHttp, listener } = options
    this.#document = new Rendered(snapshot, taken => printed(uwsgiStats(taken, withCores), isMinified))
    if (isHttp)
      this.#http = new HttpServer(listener.address, {
        '/': async () => ({ type: 'application/json', body: await this.#document.get() }),
      })
  }

  accept(socket: Socket): void {
    if (this.#http !== undefined) return this.#http.accept(socket)
    this.#clients.add(socket)
    const deadline = setTimeout(() => socket.destroy(), DEADLINE_MS)
    socket.once('close', () => clearTimeout(deadline))
    this.#document.get().then(
      body => socket.end(body),
      () => socket.destroy(),
    )
  }
}
