import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { resolve } from 'node:path'
import { quietly } from '../../base/errors.js'
import { originOf, type ResolvedOptions } from '../../formats/config/options.js'
import type { Problems } from '../../formats/ini/setting.js'
import { type Address, formatAddress, parseAddress } from '../../formats/protocol/address.js'
import { Opener } from '../../system/opener.js'

/** Listening sockets in /proc/net: the state of a TCP socket, and the flag of a unix socket. */
const TCP_LISTENS = '0A'
const UNIX_LISTENS = 0x10000
/** Longer than any pidfile. */
const MOST_PID_BYTES = 64

/**
 * Warns about sockets and pidfiles that a uWSGI running with the same ini holds: spoold could not use them, or would
 * take them away from it.
 */
export function checkLiveUwsgi(resolved: ResolvedOptions, problems: Problems): void {
  const { options } = resolved
  const where = (name: string, i = 0) => originOf(resolved, name, i)
  for (const [i, text] of options.socket.entries()) {
    const address = quietly(() => parseAddress(text)) // the check has already reported invalid addresses
    const pid = address && uwsgiListeningAt(address)
    if (address !== undefined && pid !== undefined)
      problems.warning(
        where('socket', i),
        `socket: a uWSGI (pid ${pid}) listens on ${formatAddress(address)} now, so spoold could not start; give spoold another address, or put socket where only uWSGI reads it`,
      )
  }
  for (const name of ['pidfile', 'safe-pidfile'] as const) {
    const file = name === 'pidfile' ? options.pidfile : options.safePidfile
    const pid = file === null ? undefined : uwsgiNamedIn(resolve(file))
    if (pid !== undefined)
      problems.warning(
        where(name),
        `${name}: ${file} names a uWSGI that runs (pid ${pid}), so spoold would leave it alone; give spoold another one`,
      )
  }
}

/** The pid in a pidfile, if it is that of a running uWSGI. */
export function uwsgiNamedIn(pidfile: string): number | undefined {
  const pid = Number(quietly(() => new Opener(null).readStart(pidfile, MOST_PID_BYTES).trim()))
  return Number.isInteger(pid) && pid > 0 && isUwsgi(pid) ? pid : undefined
}

/** The open files of other users' processes are visible to root only. */
function uwsgiListeningAt(address: Address): number | undefined {
  const inodes = address.kind === 'tcp' ? tcpInodes(address.port) : unixInodes(address)
  if (inodes.length === 0) return undefined
  const sockets = new Set(inodes.map(inode => `socket:[${inode}]`))
  const pids = readdirSync('/proc').map(Number).filter(isUwsgi)
  return pids.find(pid => openIn(pid).some(target => sockets.has(target)))
}

function isUwsgi(pid: number): boolean {
  return quietly(() => readFileSync(`/proc/${pid}/comm`, 'utf8'), '').startsWith('uwsgi')
}

function openIn(pid: number): string[] {
  const directory = `/proc/${pid}/fd`
  return quietly(() => readdirSync(directory).map(fd => readlinkSync(`${directory}/${fd}`)), [])
}

function tcpInodes(port: number): string[] {
  return [...rowsOf('tcp'), ...rowsOf('tcp6')].flatMap(row => {
    const [, local = '', , state, , , , , , inode = ''] = row
    return state === TCP_LISTENS && Number.parseInt(local.split(':')[1] ?? '', 16) === port ? [inode] : []
  })
}

/** Compares resolved paths, because a server may have bound a relative one. */
function unixInodes(address: Exclude<Address, { kind: 'tcp' }>): string[] {
  const name = address.kind === 'unix' ? resolve(address.path) : `@${address.name}`
  return rowsOf('unix').flatMap(row => {
    const [, , , flags = '0', , , inode = '', path = ''] = row
    const isThere = path === name || (address.kind === 'unix' && path !== '' && resolve(path) === name)
    return isThere && (Number.parseInt(flags, 16) & UNIX_LISTENS) !== 0 ? [inode] : []
  })
}

/** Returns nothing on other systems than Linux, and where /proc is hidden. */
function rowsOf(table: string): string[][] {
  const lines = quietly(() => readFileSync(`/proc/net/${table}`, 'utf8'), '').split('\n')
  return lines.slice(1).map(line => line.trim().split(/\s+/))
}
