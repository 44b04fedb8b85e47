import type { DashboardAddress } from '../net/dashboard-address.js'

/** What the dashboard shows, where, and to whom. Sent once, as the first message. */
export interface DashboardOptions {
  readonly addresses: readonly DashboardAddress[]
  /** The file with the hashes of tokens; null: there are none. */
  readonly tokensFile: string | null
  /** Admins may enqueue and edit tasks. */
  readonly allowsNewWork: boolean
  /** The keys whose values are hidden. */
  readonly hide: readonly string[]
  /** The spools that the daemon runs: their real paths, and names on Redis. */
  readonly spools: readonly string[]
  /** How those on Redis are reached, with user and password. */
  readonly redisAddresses: readonly string[]
  /** The directories with the daemon's control sockets. */
  readonly controls: readonly string[]
  /** The daemon, as its control sockets know it. */
  readonly pid: number
}

/** Daemon to dashboard. All else is asked through the control sockets. */
export interface ToDashboard {
  readonly type: 'open'
  readonly options: DashboardOptions
}

/** Dashboard to daemon, for the log. */
export type FromDashboard =
  | { readonly type: 'listening'; readonly address: string }
  /** Something does not work, and is tried again. */
  | { readonly type: 'trouble'; readonly message: string }
