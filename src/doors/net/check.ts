import { dirname, resolve } from 'node:path'
import { messageOf, SpooldError } from '../../base/errors.js'
import type { Options } from '../../formats/config/option-table.js'
import { formatAddress, isLocal, parseAddress, parseNetwork } from '../../formats/protocol/address.js'
import { MAX_BLOCK_BYTES } from '../../formats/protocol/header.js'
import { statsOf } from '../../system/file-stats.js'
import { findGroup, findUser } from '../../system/identity.js'
import { parseAlarm, webhookUrl } from './alarm-target.js'
import { isReachable, parseDashboard } from './dashboard-address.js'
import { parseHostPort, parsePush } from './stats-push.js'

/** @param i the index of the value in a list */
export type Report = (severity: 'error' | 'warning', option: string, message: string, i?: number) => void

/** Reports what keeps the daemon from listening, and whom it would let in. */
export function checkNetwork(options: Options, report: Report): void {
  for (const [i, text] of options.socket.entries()) checkSocket(text, i, options, report)
  for (const [i, text] of options.socketAllow.entries())
    attempt('socket-allow', i, report, () => parseNetwork(text))
  if (options.chownSocket !== null) checkOwner(options.chownSocket, report)
  checkNumbers(options, report)
}

function checkSocket(text: string, i: number, options: Options, report: Report): void {
  const address = attempt('socket', i, report, () => parseAddress(text))
  if (address === undefined) return
  if (address.kind === 'unix') {
    const path = resolve(address.path)
    if (!statsOf(dirname(path))?.isDirectory())
      report('error', 'socket', `${path} cannot be made, because there is no directory ${dirname(path)}`, i)
  }
  if (isLocal(address) || options.socketAllow.length > 0) return
  const tell = `anyone who can reach ${formatAddress(address)} can run tasks; name the allowed networks with socket-allow, or listen on 127.0.0.1`
  report(options.strict ? 'error' : 'warning', 'socket', tell, i)
}

function checkOwner(text: string, report: Report): void {
  const [user = '', group] = text.split(':')
  if (findUser(user) === undefined) report('error', 'chown-socket', `user ${user} not found`)
  if (group !== undefined && findGroup(group) === undefined)
    report('error', 'chown-socket', `group ${group} not found`)
}

function checkNumbers(options: Options, report: Report): void {
  const positive = {
    listen: options.listen,
    'buffer-size': options.bufferSize,
    'socket-timeout': options.socketTimeoutMs,
    'socket-request-timeout': options.socketRequestTimeoutMs,
    'socket-keepalive-timeout': options.socketKeepaliveTimeoutMs,
    'socket-max-connections': options.socketMaxConnections,
  }
  for (const [name, value] of Object.entries(positive))
    if (value === 0) report('error', name, 'expected more than 0, got 0')
  if (options.bufferSize > MAX_BLOCK_BYTES)
    report(
      'warning',
      'buffer-size',
      `expected at most ${MAX_BLOCK_BYTES}, which is what a packet can hold, got ${options.bufferSize}`,
    )
}

const INSTEAD = 'use 127.0.0.1 or a unix socket behind a proxy with TLS, or set spooler-http-insecure'

/** True if other machines can reach the address, and the configuration does not allow plain HTTP there. */
export function needsInsecure(
  address: string,
  { spoolerHttpInsecure }: Pick<Options, 'spoolerHttpInsecure'>,
): boolean {
  return !spoolerHttpInsecure && !isLocal(parseAddress(address))
}

/** Reports what is wrong with what is published, and who could read it. */
export function checkPublishing(options: Options, report: Report): void {
  for (const [i, text] of options.statsPush.entries())
    try {
      parsePush(text)
    } catch (error) {
      report('warning', 'stats-push', `${messageOf(error)}; nothing is pushed there`, i) // uWSGI may know this destination
    }
  for (const [i, text] of options.carbon.entries()) attempt('carbon', i, report, () => parseHostPort(text))
  for (const [i, text] of options.spoolerAlarm.entries())
    attempt('spooler-alarm', i, report, () => checkAlarm(text, options.spoolerHttpInsecure))
  for (const [i, text] of options.spoolerDashboard.entries())
    attempt('spooler-dashboard', i, report, () => checkDashboard(text, options))
  attempt('stats', undefined, report, () => checkStats(options, report))
  attempt('spooler-metrics', undefined, report, () => checkMetrics(options, report))
}

function checkStats(options: Options, report: Report): void {
  const { stats, statsHttp } = options
  if (stats === null) return
  if (statsHttp && needsInsecure(stats, options))
    report(
      'warning', // in an ini that is shared with a uWSGI, this is no reason to run no tasks
      'stats',
      `${stats} stays closed: whoever can reach it would read it over plain HTTP; ${INSTEAD}`,
    )
  else if (!isLocal(parseAddress(stats)))
    report('warning', 'stats', `whoever can reach ${stats} can read the names of tasks and files`)
}

/** @throws SpooldError ADDRESS_INVALID */
function checkMetrics(options: Options, report: Report): void {
  const { spoolerMetrics } = options
  if (spoolerMetrics === null || !needsInsecure(spoolerMetrics, options)) return
  const message = `whoever can reach ${spoolerMetrics} would read it over plain HTTP; ${INSTEAD}`
  report('error', 'spooler-metrics', message)
}

/** @throws SpooldError ADDRESS_INVALID */
function checkDashboard(text: string, options: Options): void {
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

/**
 * Checks an alarm without reading its files, because whoever checks may not be allowed to read them.
 *
 * @throws SpooldError CONFIG_INVALID
 */
function checkAlarm(text: string, allowsPlain: boolean): void {
  const { webhook } = parseAlarm(text)
  if (webhook !== null && 'text' in webhook.url) webhookUrl(webhook.url.text, allowsPlain)
}

function attempt<T>(option: string, i: number | undefined, report: Report, parse: () => T): T | undefined {
  try {
    return parse()
  } catch (error) {
    report('error', option, messageOf(error), i)
    return undefined
  }
}
