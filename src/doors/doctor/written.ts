import { accessSync, constants } from 'node:fs'
import { connect, createServer, type ListenOptions } from 'node:net'
import { dirname } from 'node:path'
import { errnoOf, messageOf } from '../../base/errors.js'
import { type Address, formatAddress, socketPath } from '../../formats/protocol/address.js'
import { statsOf } from '../../system/file-stats.js'
import { privateText } from '../../system/private-file.js'
import type { Diagnosis } from './diagnosis.js'

/** What a configuration makes, or writes to. */
interface Target {
  readonly name: string
  readonly kind: 'file' | 'socket' | 'fifo'
  readonly path?: string
  readonly address?: Address
}

/** While it is still root, the daemon opens these. */
const OPENED_FIRST = ['pidfile', 'logto', 'daemonize', 'socket', 'spooler-control']
/** A server that takes no connection listens all the same. */
const CONNECT_MS = 1000

/**
 * Whether the user of this process can write each file, and listen on each socket. Nothing is made.
 *
 * @param startsAsRoot the daemon does, and so opens the first ones with more rights
 */
export async function* checkWritable(
  targets: readonly Target[],
  startsAsRoot: boolean,
): AsyncGenerator<Diagnosis> {
  for (const { name, kind, path, address } of targets) {
    const about = `${name} ${path ?? (address === undefined ? '' : formatAddress(address))}`
    const topic = kind === 'socket' ? 'socket' : 'file'
    const fault =
      startsAsRoot && OPENED_FIRST.includes(name)
        ? undefined
        : path === undefined
          ? undefined
          : faultOf(path, kind)
    if (fault !== undefined) yield { level: 'error', topic, about, text: fault }
    else if (address !== undefined && (await isTaken(address, startsAsRoot)))
      yield { level: 'note', topic, about, text: 'a program listens on it now: this daemon, or another one' }
    else
      yield { level: 'ok', topic, about, text: kind === 'socket' ? 'it can be bound' : 'it can be written' }
  }
}

function faultOf(path: string, kind: Target['kind']): string | undefined {
  const directory = dirname(path)
  const isAppended = kind === 'file' && !path.endsWith('.prom') && statsOf(path) !== undefined
  try {
    accessSync(isAppended ? path : directory, isAppended ? constants.W_OK : constants.W_OK | constants.X_OK)
    return undefined
  } catch (error) {
    const what = isAppended ? 'it' : `its directory ${directory}`
    return `uid ${process.geteuid?.()} cannot write ${what}: ${messageOf(error)}`
  }
}

/** TCP is bound for a moment; whoever answers on a unix socket has it. */
async function isTaken(address: Address, startsAsRoot: boolean): Promise<boolean> {
  if (address.kind === 'tcp') {
    const { host, port } = address
    if (port === 0 || (startsAsRoot && port < 1024)) return false
    return listens({ port, ...(host === '' ? {} : { host }) })
  }
  return new Promise(resolve => {
    const socket = connect(socketPath(address), () => end(true))
    const end = (isIt: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(isIt)
    }
    const timer = setTimeout(() => end(true), CONNECT_MS)
    socket.once('error', error => end(errnoOf(error) === 'EAGAIN'))
  })
}

function listens(options: ListenOptions): Promise<boolean> {
  const server = createServer()
  return new Promise(resolve => {
    server.once('error', error => resolve(errnoOf(error) === 'EADDRINUSE'))
    server.listen(options, () => server.close(() => resolve(false)))
  })
}

/** Of `spooler-dashboard-tokens`, which the dashboard reads as the daemon's user. */
export async function checkTokens(path: string): Promise<Diagnosis> {
  const found = { topic: 'file', about: `spooler-dashboard-tokens ${path}` } as const
  try {
    await privateText(path, { maxBytes: 1024 * 1024, closedTo: 0o077 })
    return { level: 'ok', ...found, text: 'it can be read' }
  } catch (error) {
    return { level: 'error', ...found, text: messageOf(error) }
  }
}
