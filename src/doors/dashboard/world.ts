import type { IncomingMessage } from 'node:http'
import type { Hide } from '../../formats/protocol/hide.js'
import type { DashboardAddress } from '../net/dashboard-address.js'
import type { Sessions } from './access/sessions.js'
import type { Tokens } from './access/tokens.js'
import type { Visitor } from './access/visitor.js'
import type { DaemonLink } from './daemon-link.js'
import type { Spools } from './spools.js'

/** What all requests of the dashboard share. */
export interface World {
  readonly spools: Spools
  readonly daemon: DaemonLink
  /** Null: there is no file of tokens. */
  readonly tokens: Tokens | null
  readonly sessions: Sessions
  /** `spooler-dashboard-enqueue` */
  readonly allowsNewWork: boolean
  /** `spooler-hide` */
  readonly hide: Hide
}

/** What belongs to one request. */
export interface Env {
  readonly Bindings: {
    readonly incoming: Pick<IncomingMessage, 'headers'> & Partial<Pick<IncomingMessage, 'socket'>>
    /** The address at which the request came in. */
    readonly at: DashboardAddress
  }
  readonly Variables: { visitor: Visitor; id: string }
}

/** Returns what the `csrf` of a form is tied to: the visitor's role, right to payloads, and name. */
export function whoseOf({ name, role, mayReadPayload }: Visitor): string {
  return `${role} ${mayReadPayload} ${name}`
}
