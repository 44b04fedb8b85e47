import { dirname, resolve } from 'node:path'
import { messageOf } from '../../base/errors.js'
import { formatAddress, isLocal, parseAddress, parseNetwork } from '../../formats/protocol/address.js'
import { MAX_BLOCK_BYTES } from '../../formats/protocol/header.js'
import { statsOf } from '../../system/file-stats.js'
import { findGroup, findUser } from '../../system/identity.js'

/** What the network's options say, before anything listens. */
interface NetworkOptions {
  readonly socket: readonly string[]
  readonly socketAllow: readonly string[]
  readonly chownSocket: string | null
  readonly listen: number
  readonly bufferSize: number
  readonly socketTimeoutMs: number
  readonly socketRequestTimeoutMs: number
  readonly socketKeepaliveTimeoutMs: number
  readonly socketMaxConnections: number
  readonly strict: boolean
}

/** @param i which value of a list */
type Report = (severity: 'error' | 'warning', option: string, message: string, i?: number) => void

/** What the daemon needs in order to listen, and who it would let in. */
export function checkNetwork(options: NetworkOptions, report: Report): void {
  for (const [i, text] of options.socket.entries()) checkSocket(text, i, options, report)
  for (const [i, text] of options.socketAllow.entries())
    attempt('socket-allow', i, report, () => parseNetwork(text))
  if (options.chownSocket !== null) checkOwner(options.chownSocket, report)
  checkNumbers(options, report)
}

function checkSocket(text: string, i: number, options: NetworkOptions, report: Report): void {
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

function checkNumbers(options: NetworkOptions, report: Report): void {
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

function attempt<T>(option: string, i: number, report: Report, parse: () => T): T | undefined {
  try {
    return parse()
  } catch (error) {
    report('error', option, messageOf(error), i)
    return undefined
  }
}
