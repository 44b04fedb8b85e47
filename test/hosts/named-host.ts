import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type CliResult, spoold } from '../helpers/cli.js'
import { PYTHON } from '../helpers/python.js'
import { BIN, FIXTURES, ROOT, workspace } from '../helpers/workspace.js'

/** What programs install that only schedule. */
export const PYTHON_LIBRARY = join(ROOT, 'dist/hosts/python/library')

export const sample = (name: string) => join(FIXTURES, 'named', name)

export const pythonEnv = (enqueueTo?: string): NodeJS.ProcessEnv => ({
  PYTHONPATH: PYTHON_LIBRARY,
  PYTHONDONTWRITEBYTECODE: '1',
  ...(enqueueTo === undefined ? {} : { SPOOLD_ENQUEUE_TO: enqueueTo }),
})

/** Runs a program without a daemon. @returns what it printed */
export function runPython(args: readonly string[], env: NodeJS.ProcessEnv): string {
  return execFileSync(PYTHON, args, { encoding: 'utf8', env: { ...process.env, ...env } })
}

/** Runs Python code that has the module of tasks `file` as `m`. */
export function schedule(file: string, code: string, enqueueTo: string, env: NodeJS.ProcessEnv = {}): string {
  const [, directory = '', module = ''] = /^(.*)\/(\w+)\.py$/.exec(file) ?? []
  const program = `import sys; sys.path.insert(0, ${JSON.stringify(directory)})
import ${module} as m
${code}`
  return runPython(['-c', program], { ...pythonEnv(enqueueTo), ...env })
}

/** Runs what is due, and exits. */
export function drain(
  spool: string,
  file: string,
  env: NodeJS.ProcessEnv = {},
  ...args: readonly string[]
): Promise<CliResult> {
  const words = ['--drain', '--spooler', spool, '--python', PYTHON, '--import', file, ...args]
  return spoold(words, { env: { ...env, PYTHONDONTWRITEBYTECODE: '1' } })
}

/** Call it in a suite. @returns a directory for the PATH, in which the program `spoold` is */
export function programs(): string {
  const directory = workspace()
  writeFileSync(join(directory, 'spoold'), `#!/bin/sh\nexec ${process.execPath} ${BIN} "$@"\n`, {
    mode: 0o755,
  })
  return directory
}
