import { getRequestListener } from '@hono/node-server'
import { parseAddress } from '../../formats/protocol/address.js'
import { Hide } from '../../formats/protocol/hide.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import { GuardedServer } from '../http/guarded-server.js'
import { keepListening } from '../http/listener.js'
import type { DashboardAddress } from '../net/dashboard-address.js'
import type { KeptOpen } from '../net/kept-open.js'
import { Sessions } from './access/sessions.js'
import { Tokens } from './access/tokens.js'
import { DaemonLink } from './daemon-link.js'
import type { DashboardOptions, FromDashboard, ToDashboard } from './messages.js'
import { type DashboardApp, dashboardApp, SECURITY_HEADERS } from './server.js'
import { Spools } from './spools.js'

/** A request has to arrive within this time. The exporter allows less, because a scraper sends less than a form with a task. */
const REQUEST_MS = 10_000
/** The largest form is the one with an edited task. */
const MAX_FORM_BYTES = 4 * 1024 * 1024
/** An answer has to be made and taken within this time: an act on many tasks is slow. */
const ANSWER_MS = 60_000

/** The dashboard: shows a daemon's spools to browsers, and does what they ask for and may do. It has a process of its own. */
export class Dashboard {
  readonly #send: (message: FromDashboard) => void
  readonly #opened: KeptOpen[] = []

  constructor(send: (message: FromDashboard) => void) {
    this.#send = send
  }

  hear({ options }: ToDashboard): void {
    if (process.geteuid?.() === 0) return this.#trouble('it does not run as root') // the daemon does not start one as root
    const app = appOf(options, message => this.#trouble(message))
    for (const address of options.addresses) this.#listen(address, app)
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map(each => each.close()))
  }

  #listen(at: DashboardAddress, app: DashboardApp): void {
    const server = new GuardedServer({
      hosts: new Set(['localhost', ...hostOf(at), ...at.hosts]),
      headers: SECURITY_HEADERS,
      requestMs: REQUEST_MS,
      answerMs: ANSWER_MS,
      mostBodyBytes: MAX_FORM_BYTES,
      answer: getRequestListener((request, env) => app.fetch(request, { ...env, at }), {
        overrideGlobalObjects: false,
      }),
    })
    this.#opened.push(
      keepListening(at, {
        accept: socket => server.accept(socket),
        listening: address => this.#send({ type: 'listening', address }),
        trouble: message => this.#trouble(message),
      }),
    )
  }

  #trouble(message: string): void {
    this.#send({ type: 'trouble', message })
  }
}

function appOf(
  { spools, controls, pid, tokensFile, allowsNewWork, hide }: DashboardOptions,
  trouble: (message: string) => void,
): DashboardApp {
  const daemon = new DaemonLink(controls, pid)
  daemon.watch()
  return dashboardApp({
    spools: new Spools(spools.map(each => (isRedisAddress(each) ? nameOfRedis(each) : each))),
    daemon,
    tokens: tokensFile === null ? null : new Tokens(tokensFile, trouble),
    sessions: new Sessions(),
    allowsNewWork,
    hide: new Hide(hide),
  })
}

function hostOf({ address }: DashboardAddress): string[] {
  const parsed = parseAddress(address)
  return parsed.kind === 'tcp' ? [parsed.host.toLowerCase()] : []
}
