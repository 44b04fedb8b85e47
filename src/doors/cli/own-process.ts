import { constants } from 'node:os'
import type { Identity } from '../../system/privileges.js'
import { isInterrupted, PROCESS_SIGNALS } from './signals.js'

// Every command line begins here, so modules that only a change of identity needs are loaded on demand.
/** Operations on the command's own process. Tests replace them. */
export interface OwnProcess {
  /** The part of the command that this process carries out; undefined for all of it. */
  readonly part: string | undefined
  /** Takes on an identity for good. */
  become(identity: Identity): Promise<void>
  /**
   * Runs the same command line in other processes, one after another, for one part of it each, and passes signals on to them.
   *
   * @returns the highest exit code; an interrupted process ends the sequence with its own
   */
  runParts(names: Iterable<string | number>): Promise<number>
}

/** Set in the environment of a process that carries out one part of its command. */
const PART = '_SPOOLD_PART'

/** Returns the own process. Call it once: it removes the variable, so that programs started by the command do not inherit it. */
export function takeOwnProcess(): OwnProcess {
  const part = process.env[PART]
  delete process.env[PART]
  return { part, become: becomeForGood, runParts }
}

/** Loads the libraries first: Node's packages are often readable by root only. */
async function becomeForGood(identity: Identity): Promise<void> {
  const { become } = await import('../../system/privileges.js')
  const { loadLockLibraries } = await import('../../engines/spool/locker.js')
  await loadLockLibraries()
  const { loadEach } = await import('../../base/each.js')
  loadEach()
  const { rememberCaller } = await import('./caller.js')
  rememberCaller()
  become(identity)
}

async function runParts(names: Iterable<string | number>): Promise<number> {
  let exitCode = 0
  for (const name of names) {
    const ofPart = await runPart(String(name))
    if (isInterrupted(ofPart)) return ofPart
    exitCode = Math.max(exitCode, ofPart)
  }
  return exitCode
}

async function runPart(name: string): Promise<number> {
  const { spawn } = await import('node:child_process')
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    stdio: 'inherit',
    env: { ...process.env, [PART]: name },
  })
  const stopHearing = PROCESS_SIGNALS.hear(signal => child.kill(signal))
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
    })
  } finally {
    stopHearing()
  }
}
