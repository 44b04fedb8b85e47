import { accessSync, closeSync, constants, openSync, readSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { statsOf } from '../system/file-stats.js'
import type { Options } from './option-table.js'

export type HostLanguage = 'python' | 'perl' | 'ruby'

/** In the order in which uWSGI asks its plugins: that of their modifiers, 0, 5 and 7. */
export const HOST_LANGUAGES = ['python', 'perl', 'ruby'] as const satisfies readonly HostLanguage[]

/** The options that make a language needed. */
export const HOST_OPTIONS = {
  python: ['shared-import', 'import', 'spooler-python-import'],
  perl: ['perl-exec', 'perl-exec-post-fork'],
  ruby: ['shared-rbrequire', 'rbrequire'],
} as const satisfies Record<HostLanguage, readonly string[]>

/** What is run when the configuration names no interpreter: the program, which is also the name of its package. */
const PROGRAMS: Readonly<Record<HostLanguage, string>> = { python: 'python3', perl: 'perl', ruby: 'ruby' }

/**
 * The language of a value of spooler-import. As in uWSGI, what nobody else claims is Python: a module's name, a package's
 * directory, a file without an ending.
 */
export function importLanguage(value: string, home: string): 'javascript' | HostLanguage {
  if (value.endsWith('.py')) return 'python'
  if (value.endsWith('.pl')) return 'perl'
  if (value.endsWith('.rb')) return 'ruby'
  if (/\.[cm]?[jt]s$/.test(value)) return 'javascript'
  const path = resolve(home, value)
  const stats = statsOf(path)
  if (stats === undefined) return /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(value) ? 'python' : 'javascript'
  if (stats.isDirectory() || !/\.[^/]*$/.test(value.replace(/^\.+\//, '')))
    return isForNode(path) ? 'javascript' : 'python'
  return 'javascript'
}

/** A file whose first line asks for Node. */
function isForNode(path: string): boolean {
  try {
    const fd = openSync(path, 'r')
    const head = Buffer.alloc(64)
    const length = readSync(fd, head)
    closeSync(fd)
    return /^#!.*\bnode\b/.test(head.toString('latin1', 0, length))
  } catch {
    return false
  }
}

/** An interpreter that can be run, or why there is none. */
type Interpreter = { readonly path: string } | { readonly missing: string }

/** @param path the search path that the handlers will have */
export function findInterpreter(
  language: HostLanguage,
  options: Options,
  home: string,
  path: string,
): Interpreter {
  const named = options[language]
  const { virtualenv } = options
  if (named === null && language === 'python' && virtualenv !== null)
    return inVirtualenv(resolve(home, virtualenv))
  const program = named ?? PROGRAMS[language]
  const found = program.includes('/') ? runnable(resolve(home, program)) : onPath(program, path)
  if (found !== undefined) return { path: found }
  const what =
    named === null ? `${program} is not on PATH (${path})` : `${language} = ${named}: it cannot be run`
  return {
    missing: `${what}; install the package ${PROGRAMS[language]}, or name an interpreter with ${language} = PROGRAM`,
  }
}

function inVirtualenv(directory: string): Interpreter {
  const found = runnable(join(directory, 'bin/python3')) ?? runnable(join(directory, 'bin/python'))
  if (found !== undefined) return { path: found }
  return {
    missing: `virtualenv: ${directory} has no bin/python3; make one with python3 -m venv ${directory} (package python3-venv)`,
  }
}

function onPath(program: string, path: string): string | undefined {
  for (const directory of path.split(delimiter)) {
    const found = runnable(join(directory === '' ? '.' : directory, program))
    if (found !== undefined) return found
  }
  return undefined
}

function runnable(path: string): string | undefined {
  try {
    accessSync(path, constants.X_OK)
    return statsOf(path)?.isFile() ? path : undefined
  } catch {
    return undefined
  }
}

/** PATH as `env` and `unenv` leave it. */
export function searchPath(
  environment: ReadonlyArray<readonly [name: string, value: string | undefined]>,
): string {
  const change = environment.findLast(([name]) => name === 'PATH')
  return (change === undefined ? process.env.PATH : change[1]) ?? ''
}
