import { messageOf, SpooldError } from '../../base/errors.js'
import { isLocal, parseAddress } from '../../formats/protocol/address.js'
import { parseAlarm, webhookUrl } from './alarm-target.js'
import { isReachable, parseDashboard } from './dashboard-address.js'
import { parseHostPort, parsePush } from './stats-push.js'

/** @param i which value of a list */
type Complain = (severity: 'error' | 'warning', name: string, message: string, i?: number) => void

/** The options that this room checks. */
interface PublishingOptions {
  readonly stats: string | null
  readonly statsHttp: boolean
  readonly spoolerMetrics: string | null
  readonly spoolerHttpInsecure: boolean
  readonly statsPush: readonly string[]
  readonly carbon: readonly string[]
  readonly spoolerAlarm: readonly string[]
  readonly spoolerDashboard: readonly string[]
  readonly spoolerDashboardTokens: string | null
}

const INSTEAD = 'use 127.0.0.1 or a unix socket behind a proxy with TLS, or set spooler-http-insecure'

/** HTTP over a network, without encryption and for whoever can reach it, has to be asked for. */
export function needsInsecure(
  address: string,
  { spoolerHttpInsecure }: Pick<PublishingOptions, 'spoolerHttpInsecure'>,
): boolean {
  return !spoolerHttpInsecure && !isLocal(parseAddress(address))
}

/** @param problem is called with each */
export function checkPublishing(options: PublishingOptions, problem: Complain): void {
  const { statsPush, carbon } = options
  for (const [i, text] of statsPush.entries())
    attempt(
      () => parsePush(text),
      message => problem('warning', 'stats-push', `${message}; nothing is pushed there`, i), // uWSGI may know it
    )
  for (const [i, text] of carbon.entries())
    attempt(
      () => parseHostPort(text),
      message => problem('error', 'carbon', message, i),
    )
  for (const [i, text] of options.spoolerAlarm.entries())
    attempt(
      () => checkAlarm(text, options.spoolerHttpInsecure),
      message => problem('error', 'spooler-alarm', message, i),
    )
  for (const [i, text] of options.spoolerDashboard.entries())
    attempt(
      () => checkDashboard(text, options),
      message => problem('error', 'spooler-dashboard', message, i),
    )
  attempt(
    () => checkStats(options, problem),
    message => problem('error', 'stats', message),
  )
  attempt(
    () => checkMetrics(options, problem),
    message => problem('error', 'spooler-metrics', message),
  )
}

function checkStats(options: PublishingOptions, problem: Complain): void {
  const { stats, statsHttp } = options
  if (stats === null) return
  if (statsHttp && needsInsecure(stats, options))
    problem(
      'warning', // in an ini that a uWSGI shares, this is no reason to run no tasks
      'stats',
      `${stats} is left closed: whoever can reach it would read it over plain HTTP; ${INSTEAD}`,
    )
  else if (!isLocal(parseAddress(stats)))
    problem('warning', 'stats', `whoever can reach ${stats} can read the names of tasks and files`)
}

/** @throws SpooldError ADDRESS_INVALID */
function checkMetrics(options: PublishingOptions, problem: Complain): void {
  const { spoolerMetrics } = options
  if (spoolerMetrics === null || !needsInsecure(spoolerMetrics, options)) return
  const message = `whoever can reach ${spoolerMetrics} would read it over plain HTTP; ${INSTEAD}`
  problem('error', 'spooler-metrics', message)
}

/** @throws SpooldError ADDRESS_INVALID */
function checkDashboard(text: string, options: PublishingOptions): void {
  const dashboard = parseDashboard(text)
  if (!isReachable(dashboard)) return
  const { address } = dashboard
  if (needsInsecure(address, options))
    throw new SpooldError(
      'ADDRESS_INVALID',
      `whoever can reach ${address} would use it over plain HTTP; ${INSTEAD}`,
    )
  if (options.spoolerDashboardTokens === null)
    throw new SpooldError(
      'ADDRESS_INVALID',
      `whoever can reach ${address} would see it; set spooler-dashboard-tokens`,
    )
}

/** Files are read when there is something to post: whoever checks may not be allowed to. @throws SpooldError CONFIG_INVALID */
function checkAlarm(text: string, allowsPlain: boolean): void {
  const { webhook } = parseAlarm(text)
  if (webhook !== null && 'text' in webhook.url) webhookUrl(webhook.url.text, allowsPlain)
}

function attempt(parse: () => unknown, failed: (message: string) => void): void {
  try {
    parse()
  } catch (error) {
    failed(messageOf(error))
  }
}
