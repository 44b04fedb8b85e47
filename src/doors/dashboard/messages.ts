import { controlHomeOf } from '../../engines/control/home.js'
import type { Options } from '../../formats/config/option-table.js'
import { parseAddress } from '../../formats/protocol/address.js'
import { keysOf } from '../../formats/protocol/hide.js'
import { isRedisAddress, redisAddressOf } from '../../formats/protocol/redis-address.js'
import { type DashboardAddress, parseDashboard } from '../net/dashboard-address.js'

/** What the dashboard shows, where, and to whom. Sent once, as the first message. */
export interface DashboardOptions {
  readonly addresses: readonly DashboardAddress[]
  /** The file with the hashes of tokens. Null: there are no tokens. */
  readonly tokensFile: string | null
  /** True if admins may enqueue and edit tasks. */
  readonly allowsNewWork: boolean
  /** The keys whose values are hidden. */
  readonly hide: readonly string[]
  /** The spools that the daemon runs: their real paths, and addresses on Redis with user and password. */
  readonly spools: readonly string[]
  /** The directories with the daemon's control sockets. */
  readonly controls: readonly string[]
  /** The daemon's pid, which its answers on control sockets contain. */
  readonly pid: number
}

/**
 * @param spools those that the daemon runs: real paths, and names on Redis
 * @param resolve resolves a path of the configuration
 * @returns undefined: there is nothing to show
 */
export function dashboardOptions(
  { spoolerDashboard, spoolerDashboardTokens: tokens, spoolerDashboardEnqueue, spoolerHide }: Options,
  spools: readonly string[],
  resolve: (path: string) => string,
): DashboardOptions | undefined {
  if (spoolerDashboard.length === 0) return undefined
  const addresses = spoolerDashboard.map(text => {
    const parsed = parseDashboard(text)
    const isPath = parseAddress(parsed.address).kind === 'unix'
    return isPath ? { ...parsed, address: resolve(parsed.address) } : parsed
  })
  return {
    addresses,
    tokensFile: tokens === null ? null : resolve(tokens),
    allowsNewWork: spoolerDashboardEnqueue,
    hide: keysOf(spoolerHide),
    spools: spools.map(redisAddressOf),
    controls: spools.map(spool => (isRedisAddress(spool) ? controlHomeOf(spool) : spool)),
    pid: process.pid,
  }
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
