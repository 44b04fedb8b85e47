import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { resolve } from 'node:path'
import { ERROR_CATALOGUE, type ErrorCode, messageOf, quietly, SpooldError } from '../../../base/errors.js'
import { openLogFile } from '../../../base/log/output.js'
import type { Options } from '../../../formats/config/option-table.js'
import type { Sources } from '../../../formats/ini/read-config.js'
import { formatProblem } from '../../../formats/ini/setting.js'
import { ALGORITHMS } from '../../../runtime/supervisor/scaling/algorithms.js'
import { Opener } from '../../../system/opener.js'
import { identityOf } from '../../../system/privileges.js'
import { passWatchdogOn, takeServiceManager } from '../../../system/systemd/service-manager.js'
import { checkConfig } from '../../check/check.js'
import { passNothingOn, socketsOfParent, takeInheritedSockets, tellParent } from '../../daemon/parent.js'
import { runDaemon } from '../../daemon/run.js'
import { BACKGROUND_FLAG, UNDER_ROOT_FLAG } from '../option-flags.js'
import type { Output } from '../output.js'
import { Progress } from '../progress.js'

interface RunOptions {
  /** Set in the background process: the number of sockets passed by the process that started it. */
  readonly backgroundSockets: number | undefined
  /** Set in the child of a root parent: the number of sockets passed by the parent. */
  readonly parentsSockets: number | undefined
  /** Writes to standard output. */
  print(text: string): void
}

const STOPS = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const

/** The message from the background process to the one that started it. */
type Word = { readonly started: true } | { readonly failed: string; readonly code: string }

/** `spoold [app.ini] [--option value…]`: runs the daemon. @returns the exit code */
export async function run(
  sources: Sources,
  { backgroundSockets, parentsSockets, print }: RunOptions,
  output: Output,
): Promise<number> {
  const config = checkConfig(sources)
  if (config.options.spoolerCheaperAlgosList) {
    print(listOfAlgorithms())
    return 0
  }
  const { errors, warnings } = config.problems
  if (errors.length > 0)
    throw new SpooldError(
      'CONFIG_INVALID',
      ['the configuration is wrong:', ...[...errors, ...warnings].map(formatProblem)].join('\n'),
    )
  const { daemonize } = config.options
  const passedOn = parentsSockets ?? backgroundSockets
  if (passedOn === undefined) passWatchdogOn()
  const inherited = passedOn === undefined ? takeInheritedSockets() : socketsOfParent(passedOn)
  if (daemonize !== null && passedOn === undefined)
    return sendToBackground(daemonize, config.options, inherited)
  const { left, because } = passNothingOn()
  if (left.length > 0)
    output.complain(
      `handlers have what this process was given as descriptor ${left.join(', ')}: ${messageOf(because)}; close it before the start`,
    )
  const isUnderRoot = parentsSockets !== undefined
  if (!isUnderRoot && needsRootParent(config.options)) return underRoot(config.options, inherited)
  try {
    return await runDaemon({
      config,
      version: sources.version,
      inherited,
      isUnderRoot,
      manager: takeServiceManager(),
      progress: config.options.drain && output.isWatched ? new DrainProgress(output) : undefined,
      readConfig: () => checkConfig({ ...sources, isReload: true }),
      started: () => (isUnderRoot ? tellParent({ started: true }) : tell({ started: true })),
    })
  } catch (error) {
    const code = error instanceof SpooldError ? error.code : undefined
    if (isUnderRoot) tellParent({ failed: messageOf(error), ...(code === undefined ? {} : { code }) })
    else tell({ failed: messageOf(error), code: code ?? '' })
    throw error
  }
}

/** Returns the list of algorithms as uWSGI prints it (core/uwsgi.c, cheaper_algo_list). */
function listOfAlgorithms(): string {
  const names = ALGORITHMS.map(({ name }) => `${name}\n`).join('')
  return `\n*** uWSGI loaded cheaper algorithms ***\n${names}--- end of cheaper algorithms list ---\n\n`
}

/** True if a separate parent has to stay root: with master-as-root, the process that works in the spools does not. */
function needsRootParent({ masterAsRoot, uid, gid }: Options): boolean {
  return masterAsRoot && (uid ?? gid) !== null && process.geteuid?.() === 0
}

async function underRoot(options: Options, inherited: readonly number[]): Promise<number> {
  const { runUnderRoot } = await import('../../daemon/root-parent.js')
  try {
    return await runUnderRoot({
      options,
      inherited,
      flag: `${UNDER_ROOT_FLAG}=${inherited.length}`,
      started: () => tell({ started: true }),
    })
  } catch (error) {
    tell({ failed: messageOf(error), code: error instanceof SpooldError ? error.code : '' })
    throw error
  }
}

/** A process that has failed stays connected until it ends: then its sockets and files are free. */
function tell(word: Word): void {
  if (!process.connected) return
  process.send?.(word, () => {
    if ('started' in word) process.disconnect?.()
  })
}

/**
 * Starts this program again without a terminal, and waits until the daemon runs or reports why it cannot. The shell between them
 * ends at once, like uWSGI's first fork (core/utils.c, daemonize): a service manager adopts the daemon before it hears of it.
 * systemd kills a main process that is not its own child at once when it stops the service, without any mercy.
 *
 * @throws SpooldError LOG_UNWRITABLE, START_FAILED
 */
async function sendToBackground(
  logFile: string,
  options: Options,
  inherited: readonly number[],
): Promise<number> {
  const log = openLogFile(logFile, new Opener(identityOf(options)))
  const [script = '', ...args] = process.argv.slice(1)
  const flag = `${BACKGROUND_FLAG}=${inherited.length}`
  const command = [process.execPath, ...process.execArgv, script, flag, ...args]
  const child = spawn('/bin/sh', ['-c', '"$@" >&2 & echo $!', 'sh', ...command], {
    detached: true,
    stdio: ['ignore', 'pipe', log, 'ipc', ...inherited],
  })
  closeSync(log)
  // a signal that stops this process before the daemon runs is meant for the daemon
  const pid = new Promise<number>(told => child.stdout?.once('data', line => told(Number(String(line)))))
  for (const signal of STOPS)
    process.on(signal, () => void pid.then(its => quietly(() => process.kill(its, signal))))
  const failure = await hearOf(child, logFile)
  if (failure !== undefined) throw failure
  return 0
}

/**
 * Resolves with undefined once the daemon runs, or with the reason why it does not. A failed daemon has ended by then: the
 * reason is in its log too, and its sockets and files are free for the next start.
 */
function hearOf(child: ChildProcess, logFile: string): Promise<SpooldError | undefined> {
  return new Promise(hear => {
    const failedToStart = (message: string) => new SpooldError('START_FAILED', message)
    let failure = failedToStart(`the daemon ended before it ran; ${resolve(logFile)} says why`)
    child.once('message', (word: Word) => {
      if ('failed' in word) failure = failureOf(word)
      else hear(undefined)
    })
    child.once('error', error =>
      hear(failedToStart(`the background process cannot be started: ${messageOf(error)}`)),
    )
    // the process has ended, and its last message has arrived
    child.once('close', () => hear(failure))
  })
}

/** Returns the error that a daemon in the foreground would throw. */
function failureOf({ failed, code }: { readonly failed: string; readonly code: string }): SpooldError {
  const known = Object.keys(ERROR_CATALOGUE).find((each): each is ErrorCode => each === code)
  return new SpooldError(known ?? 'START_FAILED', failed)
}

/** The progress is hidden for this long after a line of the log on the same terminal, because those lines show enough. */
const SILENCE_MS = 500

/** The progress of a `--drain`, in a line below the log. */
export class DrainProgress {
  readonly #output: Pick<Output, 'status' | 'isWatched' | 'clearStatus'>
  readonly #now: () => number
  #progress: Progress | undefined
  #loggedAt = Number.NEGATIVE_INFINITY

  constructor(output: Pick<Output, 'status' | 'isWatched' | 'clearStatus'>, now = () => performance.now()) {
    this.#output = output
    this.#now = now
  }

  /** Call it before a line is logged to the same terminal. */
  logged(): void {
    this.#output.clearStatus()
    this.#loggedAt = this.#now()
  }

  /** @param left the number of due tasks that have not ended */
  show(done: number, left: number): void {
    this.#progress ??= new Progress(this.#output, 'task', true, this.#now)
    if (this.#now() - this.#loggedAt < SILENCE_MS) return
    this.#progress.show(done, left === 0 ? undefined : done / (done + left))
  }
}
