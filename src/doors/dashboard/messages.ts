import type { DashboardAddress } from '../net/dashboard-address.js'

/** What the dashboard shows, where, and to whom. Sent once, as the first message. */
export interface DashboardOptions {
  readonly addresses: readonly DashboardAddress[]
  /** The file with the hashes of tokens. Null: there are no tokens. */
  readonly tokensFile: string | null
  /** True if admins may enqueue and edit tasks. */
  readonly allowsNewWork: boolean
  /** The keys whose values are hidden. */
  readonly hide: readonly string[]
  /** The spools that the daemon runs: their real paths, and names on Redis. */
  readonly spools: readonly string[]
  /** The addresses of the spools on Redis, with user and password. */
  readonly redisAddresses: readonly string[]
  /** The directories with the daemon's control sockets. */
  readonly controls: readonly string[]
  /** The daemon's pid, which its answers on control sockets contain. */
  readonly pid: number
}

/** A message from the daemon to the dashboard. The dashboard asks for everything else through the control sockets. */
export interface ToDashboard {
  readonly type: 'open'
  readonly options: DashboardOptions
}

/** A message from the dashboard to the daemon, for the log. */
export type FromDashboard =
  | { readonly type: 'listening'; readonly address: string }
  /** An address or the file of tokens does not work, and is tried again; or the process is root. */
  | { readonly type: 'trouble'; readonly message: string }
