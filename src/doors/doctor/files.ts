import { accessSync, constants } from 'node:fs'
import { connect, createServer, type ListenOptions } from 'node:net'
import { dirname } from 'node:path'
import { errnoOf, messageOf } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { checkWay } from '../../engines/spool/permissions.js'
import { type Address, formatAddress, socketPath } from '../../formats/protocol/address.js'
import { statsOf } from '../../system/file-stats.js'
import { type Bound, Opener } from '../../system/opener.js'
import { privateText } from '../../system/private-file.js'
import { type Diagnosis, diagnosisOf } from './diagnosis.js'

/** Something that a configuration creates, or writes to. */
interface Target {
  readonly name: string
  readonly kind: 'file' | 'socket' | 'fifo'
  readonly path?: string
  readonly address?: Address
}

/** The options whose files the daemon opens while it is still root. */
const OPENED_FIRST = ['pidfile', 'logto', 'daemonize', 'socket', 'spooler-control']
/** A server that accepts no connection within this time counts as listening all the same. */
const CONNECT_MS = 1000

/**
 * Checks that the user of this process can write each file, and listen on each socket, which is bound for a moment. Nothing else
 * is created.
 *
 * @param startsAsRoot true if the daemon starts as root, and so opens the first ones with more rights
 */
export async function* checkWritable(
  targets: readonly Target[],
  startsAsRoot: boolean,
): AsyncGenerator<Diagnosis> {
  for (const { name, kind, path, address } of targets) {
    const about = `${name} ${path ?? (address === undefined ? '' : formatAddress(address))}`
    const topic = kind === 'socket' ? 'socket' : 'file'
    const isOurs = !(startsAsRoot && OPENED_FIRST.includes(name))
    let fault = isOurs && path !== undefined ? faultOf(path, kind) : undefined
    if (fault === undefined && address !== undefined) {
      if (address.kind !== 'tcp' && (await isListening(address))) fault = TAKEN
      else if (isOurs && !needsRoot(address, startsAsRoot)) fault = await bindFault(address)
    }
    if (fault === TAKEN)
      yield { level: 'note', topic, about, text: 'a program listens on it now: this daemon, or another one' }
    else if (fault !== undefined) yield { level: 'error', topic, about, text: fault }
    else
      yield { level: 'ok', topic, about, text: kind === 'socket' ? 'it can be bound' : 'it can be written' }
  }
}

const TAKEN = 'taken'

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

/**
 * Binds an address, to find what only an attempt tells: a file system without sockets, a rule of AppArmor's or SELinux's, an
 * address of another machine. A unix socket is bound as the daemon does, beside its name, which it never gets, so that no daemon
 * that starts meanwhile takes this process for another daemon.
 */
async function bindFault(address: Address): Promise<string | undefined> {
  try {
    if (address.kind === 'unix')
      await new Opener(null).bind(address.path, { mode: null, owner: null }, at => leaveUnnamed(at))
    else if (address.kind === 'abstract') await listenBriefly({ path: socketPath(address) })
    else await listenBriefly({ host: address.host === '' ? '0.0.0.0' : address.host, port: address.port })
  } catch (error) {
    if (errnoOf(error) === 'EADDRINUSE') return TAKEN
    if (error !== BOUND) return `uid ${process.geteuid?.()} cannot bind it: ${messageOf(error)}`
  }
  return undefined
}

const BOUND = new Error('it can be bound')

async function leaveUnnamed(at: Bound): Promise<never> {
  if ('server' in at) at.server.close()
  else await listenBriefly(at)
  throw BOUND
}

async function listenBriefly(at: ListenOptions | { readonly fd: number }): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(at, resolve))
  server.close()
}

/** True for a port that only root may bind, if the daemon starts as root. */
function needsRoot(address: Address, startsAsRoot: boolean): boolean {
  return startsAsRoot && address.kind === 'tcp' && address.port < 1024 && address.port !== 0
}

function isListening(address: Exclude<Address, { kind: 'tcp' }>): Promise<boolean> {
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

/** Checks the file of `spooler-dashboard-tokens`, which the dashboard reads as the daemon's user. */
export async function checkTokens(path: string): Promise<Diagnosis> {
  const found = { topic: 'file', about: `spooler-dashboard-tokens ${path}` } as const
  try {
    await privateText(path, { maxBytes: 1024 * 1024, closedTo: 0o077 })
    return { level: 'ok', ...found, text: 'it can be read' }
  } catch (error) {
    return { level: 'error', ...found, text: messageOf(error) }
  }
}

/**
 * Checks handlers and working directories as the user of this process; the configuration was checked as the user that reads it.
 */
export function* checkReadable(
  files: readonly string[],
  directories: readonly string[],
): Generator<Diagnosis> {
  for (const [path, right, needed] of [
    ...files.map(file => [file, constants.R_OK, 'read'] as const),
    ...directories.map(directory => [directory, constants.X_OK, 'entered'] as const),
  ])
    yield checkRight(path, right, needed)
}

function checkRight(path: string, right: number, needed: string): Diagnosis {
  const about = { topic: 'handlers', about: path } as const
  try {
    checkWay(path)
  } catch (error) {
    return diagnosisOf('handlers', path, error)
  }
  try {
    accessSync(path, right)
    return { level: 'ok', ...about, text: `it can be ${needed}` }
  } catch (error) {
    const fix = `chmod a+r${needed === 'read' ? '' : 'x'} ${shellWord(path)}`
    return {
      level: 'error',
      ...about,
      text: `it cannot be ${needed} by uid ${process.geteuid?.()}: ${messageOf(error)}`,
      fix,
    }
  }
}
