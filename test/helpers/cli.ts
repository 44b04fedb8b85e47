import { spawn } from 'node:child_process'
import { Readable } from 'node:stream'
import { main } from '#src/doors/cli/program.js'
import type { Screen } from '#src/doors/cli/screen.js'
import { patience } from './until.js'
import { BIN } from './workspace.js'

export interface CliResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const LONGEST_MS = 30_000

/** Returns a result without the line that stored tasks wait for a daemon: few tests have a daemon. */
export function besidesIdle<Result extends { readonly stderr: string }>(result: Result): Result {
  return {
    ...result,
    stderr: result.stderr.replace(/spoold: no daemon runs .*: its tasks wait for one\n/g, ''),
  }
}

/** Runs the built command line until it exits. */
export function spoold(
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; input?: string | Buffer } = {},
): Promise<CliResult> {
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    timeout: Math.round(LONGEST_MS * patience()),
    killSignal: 'SIGKILL',
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', chunk => (stdout += chunk))
  child.stderr.on('data', chunk => (stderr += chunk))
  child.stdin.on('error', () => {})
  child.stdin.end(options.input ?? '')
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => resolve({ code, stdout, stderr }))
  })
}

/**
 * Runs the command line in this process, which saves a start of Node. Not for tests that depend on the working directory or on
 * the process itself: signals, descriptors, another user's spool.
 */
export async function inProcess(
  args: readonly string[],
  options: {
    env?: Readonly<Record<string, string>>
    input?: string | Buffer
    /** True if standard error is a terminal. */
    isWatched?: boolean
    /** What standard output can show. */
    screen?: Screen
  } = {},
): Promise<CliResult> {
  let stdout = ''
  let stderr = ''
  const code = await main(args, {
    stdout(text) {
      stdout += text
    },
    stderr(text) {
      stderr += text
    },
    stdin: () => Readable.from([Buffer.from(options.input ?? '')]),
    isWatched: options.isWatched ?? false,
    screen: () => options.screen ?? { columns: undefined, hasColor: false },
    env: { ...process.env, ...options.env },
    ownProcess: {
      part: undefined,
      become: refuse,
      runParts: refuse,
    },
    signals: { take() {}, hear: () => () => {}, end: refuse },
  })
  return { code, stdout, stderr }
}

/** Runs the command line in this process, in another working directory. Not in parallel with other tests, which share it. */
export async function inProcessAt(cwd: string, args: readonly string[]): Promise<CliResult> {
  const home = process.cwd()
  process.chdir(cwd)
  try {
    return await inProcess(args)
  } finally {
    process.chdir(home)
  }
}

function refuse(): never {
  throw new Error("this command becomes a spool's owner: run it in a process of its own")
}
