import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { resolve } from 'node:path'
import { ERROR_CATALOGUE, type ErrorCode, messageOf, SpooldError } from '../../base/errors.js'
import { checkConfig } from '../../config/check.js'
import type { Options } from '../../config/option-table.js'
import { takeInheritedSockets } from '../../daemon/inherited-sockets.js'
import { runDaemon } from '../../daemon/run.js'
import { socketsOfParent, tellParent } from '../../daemon/under-root.js'
import { setReload } from '../../ini/logic.js'
import type { Sources } from '../../ini/read-config.js'
import { formatProblem } from '../../ini/setting.js'
import { openLogFile } from '../../log/output.js'
import { BACKGROUND_FLAG, UNDER_ROOT_FLAG } from '../option-flags.js'

interface RunOptions {
  /** It is in the background, and who started it passes so many sockets on. */
  readonly backgroundSockets: number | undefined
  /** It is the child of a root parent, which passes so many sockets on. */
  readonly parentsSockets: number | undefined
}

const STOPS = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const

/** What the process in the background tells the one that started it. */
type Word = { readonly started: true } | { readonly failed: string; readonly code: string }

/** `spoold [app.ini] [--option value…]`: runs the daemon. @returns the exit code */
export async function run(
  sources: Sources,
  { backgroundSockets, parentsSockets }: RunOptions,
): Promise<number> {
  const config = checkConfig(sources)
  const { errors, warnings } = config.problems
  if (errors.length > 0)
    throw new SpooldError(
      'CONFIG_INVALID',
      ['the configuration is wrong:', ...[...errors, ...warnings].map(formatProblem)].join('\n'),
    )
  const { daemonize } = config.options
  const passedOn = parentsSockets ?? backgroundSockets
  const inherited = passedOn === undefined ? takeInheritedSockets() : socketsOfParent(passedOn)
  if (daemonize !== null && passedOn === undefined) return sendToBackground(daemonize, inherited)
  const isUnderRoot = parentsSockets !== undefined
  if (!isUnderRoot && needsRootParent(config.options)) return underRoot(config.options, inherited)
  try {
    return await runDaemon({
      config,
      version: sources.version,
      inherited,
      logFile: daemonize,
      isUnderRoot,
      readConfig() {
        setReload()
        return checkConfig(sources)
      },
      started: () => (isUnderRoot ? tellParent({ started: true }) : tell({ started: true })),
    })
  } catch (error) {
    const code = error instanceof SpooldError ? error.code : undefined
    if (isUnderRoot) tellParent({ failed: messageOf(error), ...(code === undefined ? {} : { code }) })
    else tell({ failed: messageOf(error), code: code ?? '' })
    throw error
  }
}

/** With master-as-root somebody stays root: not who works in the spools. */
function needsRootParent({ masterAsRoot, uid, gid }: Options): boolean {
  return masterAsRoot && (uid ?? gid) !== null && process.geteuid?.() === 0
}

async function underRoot(options: Options, inherited: readonly number[]): Promise<number> {
  const { runUnderRoot } = await import('../../daemon/root-parent.js')
  try {
    return await runUnderRoot({
      options,
      logFile: options.daemonize,
      inherited,
      flag: sockets => `${UNDER_ROOT_FLAG}=${sockets}`,
      started: () => tell({ started: true }),
    })
  } catch (error) {
    tell({ failed: messageOf(error), code: error instanceof SpooldError ? error.code : '' })
    throw error
  }
}

function tell(word: Word): void {
  if (!process.connected) return
  process.send?.(word, () => process.disconnect?.())
}

/**
 * Starts this program once more without a terminal, and waits until it runs or says why it does not.
 *
 * @throws SpooldError LOG_UNWRITABLE, START_FAILED
 */
async function sendToBackground(logFile: string, inherited: readonly number[]): Promise<number> {
  const log = openLogFile(logFile)
  const [script = '', ...args] = process.argv.slice(1)
  const flag = `${BACKGROUND_FLAG}=${inherited.length}`
  const child = spawn(process.execPath, [...process.execArgv, script, flag, ...args], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc', ...inherited],
  })
  closeSync(log)
  // whoever ends this process before the daemon runs means the daemon
  for (const signal of STOPS) process.on(signal, () => child.kill(signal))
  const failure = await hearOf(child, logFile)
  if (failure !== undefined) throw failure
  return 0
}

/** Resolves with why it does not run, or with undefined once it does. */
function hearOf(child: ChildProcess, logFile: string): Promise<SpooldError | undefined> {
  return new Promise(hear => {
    const fail = (message: string) => hear(new SpooldError('START_FAILED', message))
    child.once('message', (word: Word) => hear('failed' in word ? failureOf(word) : undefined))
    child.once('error', error => fail(`the process for the background cannot be made: ${messageOf(error)}`))
    // its last word is read before its end of the channel
    child.once('disconnect', () => fail(`the daemon ended before it ran; ${resolve(logFile)} says why`))
  })
}

/** As if it had not been in the background. */
function failureOf({ failed, code }: { readonly failed: string; readonly code: string }): SpooldError {
  const known = Object.keys(ERROR_CATALOGUE).find((each): each is ErrorCode => each === code)
  return new SpooldError(known ?? 'START_FAILED', failed)
}
