import { spawn } from 'node:child_process'
import type { CliResult } from './cli.js'
import { BIN } from './workspace.js'

/** Reads nothing for a second, then everything. */
export const SLEEPER = 'sleep 1; cat'
/** Reads one line and exits. */
export const LEAVER = 'head -n 1'

const LONGEST_MS = 600_000

/** Runs the built command line with its standard output piped to shell commands. The exit code is the command line's. */
export function piped(args: readonly string[], reader: string, input = ''): Promise<CliResult> {
  const script = `"$@" | (${reader}); exit "\${PIPESTATUS[0]}"`
  const child = spawn('bash', ['-c', script, 'bash', process.execPath, BIN, ...args], { timeout: LONGEST_MS })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', chunk => (stdout += chunk))
  child.stderr.on('data', chunk => (stderr += chunk))
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => resolve({ code, stdout, stderr }))
  })
}
