import { type ChildProcess, spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { type ErrorCode, messageOf, SpooldError } from '../../base/errors.js'
import { Emitter } from '../../base/events/emitter.js'
import { LogOutput } from '../../base/log/output.js'
import type { Options } from '../../formats/config/option-table.js'
import { parseAddress } from '../../formats/protocol/address.js'
import { inodeAt, Opener } from '../../system/opener.js'
import { identityOf } from '../../system/privileges.js'
import { reapIfFirst } from '../../system/reaper.js'
import { Pidfiles } from './pidfile.js'

/** Messages of the daemon to its root parent. They name no files: the parent has read the configuration itself. */
export type Ask =
  | { readonly ask: 'pidfile' | 'safe pidfile' }
  | { readonly ask: 'reopen-log' }
  | { readonly started: true }
  | { readonly failed: string; readonly code?: ErrorCode }

/** The answer to a request for a pidfile. */
export interface Answer {
  readonly warnings: readonly string[]
  readonly refused?: { readonly code: ErrorCode; readonly message: string }
}

interface RootParentOptions {
  readonly options: Options
  /** The sockets that were passed to the process. */
  readonly inherited: readonly number[]
  /** What is added to this process's own command line: it says how many sockets were passed. */
  readonly flag: string
  started(): void
}

const FORWARDED = [
  'SIGTERM',
  'SIGINT',
  'SIGQUIT',
  'SIGHUP',
  'SIGUSR1',
  'SIGUSR2',
  'SIGTSTP',
  'SIGTTIN',
] as const

/**
 * Under `master-as-root`: the process that stays root. It holds what only root may reopen or remove (pidfiles, the
 * log, the files of unix sockets), forwards signals, and ends as the daemon ends. The daemon is its child, which
 * drops root for good before it enters a spool.
 *
 * States: starting → running → ended. @returns the daemon's exit code
 */
export async function runUnderRoot(request: RootParentOptions): Promise<number> {
  const { options } = request
  const file = options.daemonize ?? options.logto
  const files = new Opener(identityOf(options))
  const log = file === null ? undefined : new LogOutput(file, files, () => {}, 'latin1')
  const warnings: string[] = []
  const events = new Emitter()
  events.on('config-warning', ({ message }) => warnings.push(message))
  const pidfiles = new Pidfiles(events, files)
  let hasStarted = false
  let bound: ReturnType<typeof socketFiles> = []
  let failure: Extract<Ask, { failed: string }> | undefined
  reapIfFirst()
  const child = start(request, log)
  for (const signal of FORWARDED)
    process.on(signal, () => {
      if (signal === 'SIGHUP') reopen(log)
      child.kill(signal)
    })
  child.on('message', (ask: unknown) => {
    if (!isAsk(ask)) return
    if ('failed' in ask) failure = ask
    else if ('started' in ask) {
      hasStarted = true
      bound = socketFiles(options)
      request.started()
    } else if (ask.ask === 'reopen-log') reopen(log)
    else void acquire(pidfiles, ask.ask, options, warnings).then(answer => sendTo(child, answer))
  })
  const { code, signal } = await endOf(child)
  const isVacuum = options.vacuum || !hasStarted
  pidfiles.release(isVacuum)
  if (options.vacuum) for (const left of removeSockets(bound, files)) log?.write(`${left}\n`)
  if (signal !== null) log?.write(`the daemon (pid ${child.pid}) died of ${signal}\n`)
  await log?.end()
  if (failure !== undefined && log !== undefined)
    throw new SpooldError(failure.code ?? 'START_FAILED', failure.failed)
  return code ?? 1
}

const ASKED: readonly unknown[] = ['pidfile', 'safe pidfile', 'reopen-log']

/** Code of the configuration's runs in the daemon, too: an algorithm may send anything. */
function isAsk(message: unknown): message is Ask {
  if (typeof message !== 'object' || message === null) return false
  if ('failed' in message) return typeof message.failed === 'string'
  return 'started' in message || ('ask' in message && ASKED.includes(message.ask))
}

/** Merges both output streams of the daemon into one, so that its lines stay in order. */
function start({ inherited, flag }: RootParentOptions, log: LogOutput | undefined): ChildProcess {
  const [script = '', ...args] = process.argv.slice(1)
  const command = [process.execPath, ...process.execArgv, script, flag, ...args]
  const out = log === undefined ? 'inherit' : 'pipe'
  const child = spawn(
    '/bin/sh',
    ['-c', log === undefined ? 'exec "$@"' : 'exec "$@" 2>&1', 'sh', ...command],
    {
      stdio: ['ignore', out, 'inherit', 'ipc', ...inherited],
    },
  )
  child.stdout?.on('data', (chunk: Buffer) => log?.write(chunk.toString('latin1')))
  return child
}

function reopen(log: LogOutput | undefined): void {
  try {
    log?.reopen()
  } catch (error) {
    log?.write(`the log goes on in the old file: ${messageOf(error)}\n`)
  }
}

async function acquire(
  pidfiles: Pidfiles,
  kind: 'pidfile' | 'safe pidfile',
  options: Options,
  warnings: string[],
): Promise<Answer> {
  const file = kind === 'pidfile' ? options.pidfile : options.safePidfile
  try {
    if (file !== null) await pidfiles.acquire(kind, file)
    return { warnings: warnings.splice(0) }
  } catch (error) {
    const code = error instanceof SpooldError ? error.code : 'START_FAILED'
    return { warnings: warnings.splice(0), refused: { code, message: messageOf(error) } }
  }
}

function sendTo(child: ChildProcess, answer: Answer): void {
  if (child.connected) child.send(answer, () => {}) // the child may be about to exit
}

function endOf(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once('error', error =>
      reject(new SpooldError('START_FAILED', `the daemon cannot be started: ${messageOf(error)}`)),
    )
    child.once('close', (code, signal) => resolve({ code, signal }))
  })
}

/** The files of the unix sockets that the daemon has bound as root, before it dropped root, with their inodes. */
function socketFiles({ socket }: Options): ReadonlyArray<readonly [path: string, inode: string]> {
  return socket.flatMap(text => {
    const address = parseAddress(text)
    if (address.kind !== 'unix') return []
    const path = resolve(address.path)
    const inode = inodeAt(path)
    return inode === undefined ? [] : [[path, inode] as const]
  })
}

/** Leaves alone any file that has replaced one of them. @returns why some are left */
function removeSockets(bound: ReturnType<typeof socketFiles>, files: Opener): string[] {
  return bound.flatMap(([path, inode]) => {
    try {
      files.remove(path, inode)
      return []
    } catch (error) {
      return `the socket ${path} is left: ${messageOf(error)}`
    }
  })
}
