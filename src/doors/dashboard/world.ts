import type { IncomingMessage } from 'node:http'
import type { Hide } from '../../formats/protocol/hide.js'
import type { DashboardAddress } from '../net/dashboard-address.js'
import type { Sessions } from './access/sessions.js'
import type { Tokens } from './access/tokens.js'
import type { Visitor } from './access/visitor.js'
import type { DaemonLink } from './daemon-link.js'
import type { Spools } from './spools.js'

/** What the dashboard is made of. */
export interface World {
  readonly spools: Spools
  readonly daemon: DaemonLink
  /** Null: nobody has a token. */
  readonly tokens: Tokens | null
  readonly sessions: Sessions
  /** `spooler-dashboard-enqueue` */
  readonly allowsNewWork: boolean
  /** `spooler-hide` */
  readonly hide: Hide
}

/** What belongs to a request. */
export interface Env {
  readonly Bindings: {
    readonly incoming: Pick<IncomingMessage, 'headers'> & Partial<Pick<IncomingMessage, 'socket'>>
    /** Where it came in. */
    readonly at: DashboardAddress
  }
  readonly Variables: { visitor: Visitor; id: string }
}

/** Whose form it is. */
export function whoseOf({ name, role, mayReadPayload }: Visitor): string {
  return `${role} ${mayReadPayload} ${name}`
}
