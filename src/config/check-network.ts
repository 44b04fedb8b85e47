import { dirname, resolve } from 'node:path'
import { messageOf } from '../base/errors.js'
import type { Problems, Where } from '../ini/setting.js'
import { formatAddress, isLocal, parseAddress, parseNetwork } from '../protocol/address.js'
import { MAX_BLOCK_BYTES } from '../protocol/header.js'
import { statsOf } from '../system/file-stats.js'
import { findGroup, findUser } from '../system/identity.js'
import type { Options } from './option-table.js'

/** What the daemon needs in order to listen, and who it would let in. */
export function checkNetwork(
  options: Options,
  where: (name: string, i?: number) => Where,
  problems: Problems,
): void {
  for (const [i, text] of options.socket.entries()) checkSocket(text, options, where('socket', i), problems)
  for (const [i, text] of options.socketAllow.entries())
    attempt('socket-allow', where('socket-allow', i), problems, () => parseNetwork(text))
  if (options.chownSocket !== null) checkOwner(options.chownSocket, where('chown-socket'), problems)
  checkNumbers(options, where, problems)
}

function checkSocket(text: string, options: Options, where: Where, problems: Problems): void {
  const address = attempt('socket', where, problems, () => parseAddress(text))
  if (address === undefined) return
  if (address.kind === 'unix') {
    const path = resolve(address.path)
    if (!statsOf(dirname(path))?.isDirectory())
      problems.error(where, `socket: ${path} cannot be made, because there is no directory ${dirname(path)}`)
  }
  if (isLocal(address) || options.socketAllow.length > 0) return
  const tell = `socket: anyone who can reach ${formatAddress(address)} can run tasks; name the allowed networks with socket-allow, or listen on 127.0.0.1`
  if (options.strict) problems.error(where, tell)
  else problems.warning(where, tell)
}

function checkOwner(text: string, where: Where, problems: Problems): void {
  const [user = '', group] = text.split(':')
  if (findUser(user) === undefined) problems.error(where, `chown-socket: user ${user} not found`)
  if (group !== undefined && findGroup(group) === undefined)
    problems.error(where, `chown-socket: group ${group} not found`)
}

function checkNumbers(options: Options, where: (name: string) => Where, problems: Problems): void {
  const positive = {
    listen: options.listen,
    'buffer-size': options.bufferSize,
    'socket-timeout': options.socketTimeoutMs,
    'socket-request-timeout': options.socketRequestTimeoutMs,
    'socket-keepalive-timeout': options.socketKeepaliveTimeoutMs,
    'socket-max-connections': options.socketMaxConnections,
  }
  for (const [name, value] of Object.entries(positive))
    if (value === 0) problems.error(where(name), `${name}: expected more than 0, got 0`)
  if (options.bufferSize > MAX_BLOCK_BYTES)
    problems.warning(
      where('buffer-size'),
      `buffer-size: expected at most ${MAX_BLOCK_BYTES}, which is what a packet can hold, got ${options.bufferSize}`,
    )
}

function attempt<T>(name: string, where: Where, problems: Problems, parse: () => T): T | undefined {
  try {
    return parse()
  } catch (error) {
    problems.error(where, `${name}: ${messageOf(error)}`)
    return undefined
  }
}
