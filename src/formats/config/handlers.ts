import { accessSync, closeSync, constants, openSync, readSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { statsOf } from '../../system/file-stats.js'
import type { SpoolOptions } from './option-table.js'

export type HostLanguage = 'python' | 'perl' | 'ruby'

/** The languages with hosts, in the order in which uWSGI tries its plugins: by modifier, 0, 5 and 7. */
export const HOST_LANGUAGES = ['python', 'perl', 'ruby'] as const satisfies readonly HostLanguage[]

type HostOption = readonly [option: string, property: keyof SpoolOptions]

/** The options that require a language's interpreter. */
export const HOST_OPTIONS = {
  python: [
    ['shared-import', 'sharedImport'],
    ['import', 'import'],
    ['spooler-python-import', 'spoolerPythonImport'],
  ],
  perl: [
    ['perl-exec', 'perlExec'],
    ['perl-exec-post-fork', 'perlExecPostFork'],
  ],
  ruby: [
    ['shared-rbrequire', 'sharedRbrequire'],
    ['rbrequire', 'rbrequire'],
  ],
} as const satisfies Record<HostLanguage, readonly HostOption[]>

/** True if an option other than those of an application names a handler. */
export function hasOtherHandlers(options: SpoolOptions): boolean {
  const { spoolerImport, spoolerExec } = options
  return (
    spoolerImport.length + spoolerExec.length > 0 ||
    HOST_LANGUAGES.some(language =>
      HOST_OPTIONS[language].some(([, property]) => options[property].length > 0),
    )
  )
}

/** The default interpreters; each name is also that of the package to install. */
const PROGRAMS: Readonly<Record<HostLanguage, string>> = { python: 'python3', perl: 'perl', ruby: 'ruby' }

/**
 * Returns the language of a value of spooler-import. As in uWSGI, Python is the default: for a module name, a package directory
 * and a file without extension.
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

/** True if the file's first line (`#!`) names Node. */
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

/** The path of an executable interpreter, or why there is none. */
type Interpreter = { readonly path: string } | { readonly missing: string }

/** Finds the interpreter of a language. @param path the PATH that the handlers will have */
export function findInterpreter(
  language: HostLanguage,
  options: SpoolOptions,
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

/** Returns PATH after the changes by `env` and `unenv`. */
export function searchPath(
  environment: ReadonlyArray<readonly [name: string, value: string | undefined]>,
): string {
  const change = environment.findLast(([name]) => name === 'PATH')
  return (change === undefined ? process.env.PATH : change[1]) ?? ''
}
