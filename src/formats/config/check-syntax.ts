import { spawnSync } from 'node:child_process'
import { delimiter, resolve } from 'node:path'
import { HOSTS_ROOT } from '../../base/package-root.js'
import { statsOf } from '../../system/file-stats.js'
import { syntaxErrorIn, unsupportedEnding } from '../../system/module-files.js'
import { glob } from '../ini/glob.js'
import type { Problems } from '../ini/setting.js'
import { applicationFile, applicationsOf } from './applications.js'
import { findInterpreter, HOST_OPTIONS, type HostLanguage, importLanguage, searchPath } from './handlers.js'
import type { SpoolOptions } from './option-table.js'
import { originOf, type ResolvedOptions } from './options.js'
import { handlingSpools, labelOf } from './spools.js'

const PARSE_MS = 10_000
/** Parses without writing a compiled file. */
const PYTHON = 'import sys; f = sys.argv[1]; compile(open(f, "rb").read(), f, "exec")'
/** Looks only for the first part of a module's name, because a look below the first part would run that module. */
const FIND = `import importlib.util, site, sys
sys.path[:0] = sys.argv[2].split(chr(10)); sys.path.append(site.getusersitepackages())
sys.exit(importlib.util.find_spec(sys.argv[1]) is None and 3)`
const NOT_FOUND = 3
/** The directories that the host adds to the search path. */
const LIBRARIES = ['library', 'last_resort', 'library/spoold/last_resort'].map(
  each => `${HOSTS_ROOT}/python/${each}`,
)
/** A module, and no file. */
const MODULE = /^([A-Za-z_]\w*)(\.(?!py$)[A-Za-z_]\w*)*$/

/** Returns the files and interpreters that would be run to load the handlers and algorithms of a configuration. */
export function codeOf(resolved: ResolvedOptions): string[] {
  const home = resolve(resolved.options.chdir ?? '.')
  const path = searchPath(resolved.environment)
  const found = handlingSpools(resolved).flatMap(({ options }) =>
    [...handlerFiles(options, home), ...algorithmFiles(options, home)].flatMap(({ file, language }) => {
      const interpreter = language === 'javascript' ? undefined : interpreterOf(language, options, home, path)
      return interpreter === undefined ? [file] : [file, interpreter]
    }),
  )
  return [...new Set(found)]
}

/**
 * Parses the files of handlers and algorithms, and looks for modules of Python, without running any code. Perl is left out,
 * because it cannot be parsed without running it. A module that is not found is a warning only, because a module that is loaded
 * before it may change the search path.
 *
 * @param as the user that interpreters run as; undefined: this process's own user
 */
export function checkSyntax(
  resolved: ResolvedOptions,
  problems: Problems,
  as?: { readonly uid: number; readonly gid: number },
): void {
  const home = resolve(resolved.options.chdir ?? '.')
  const isHomeThere = statsOf(home)?.isDirectory() === true
  const path = searchPath(resolved.environment)
  /** The result per file, because several spools may share a handler. */
  const parsed = new Map<string, string | undefined>()
  const environment = new Map(resolved.environment)
  const pythonPath = environment.get('PYTHONPATH') ?? process.env.PYTHONPATH
  const nodeOptions = environment.get('NODE_OPTIONS') ?? process.env.NODE_OPTIONS
  for (const spool of handlingSpools(resolved))
    for (const { name, index, value, file, language } of [
      ...handlerFiles(spool.options, home),
      ...algorithmFiles(spool.options, home),
    ]) {
      const interpreter =
        language === 'javascript' ? undefined : interpreterOf(language, spool.options, home, path)
      if (statsOf(file)?.isFile() !== true) {
        // a file or a chdir that is missing is already reported, so only modules remain
        const [, module] = (isHomeThere && language === 'python' && MODULE.exec(value)) || []
        if (module === undefined || interpreter === undefined) continue
        const paths = [
          ...spool.options.pythonpath.flatMap(glob).map(each => resolve(home, each)),
          home,
          ...LIBRARIES,
          ...(pythonPath ?? '').split(delimiter).map(each => resolve(home, each)),
        ]
        if (run(interpreter, ['-I', '-c', FIND, module, paths.join('\n')], as).status === NOT_FOUND)
          problems.warning(
            originOf(spool, name, index),
            `${labelOf(spool, name)}: ${interpreter} finds no module ${module}: install it there, or say with pythonpath = DIR where it is`,
          )
        continue
      }
      const key = `${language} ${interpreter} ${file}`
      if (!parsed.has(key)) parsed.set(key, syntaxFault(language, interpreter, file, nodeOptions, as))
      const text = parsed.get(key)
      if (text !== undefined)
        problems.error(
          originOf(spool, name, index),
          `${labelOf(spool, name)}: ${file} cannot be parsed: ${text}`,
        )
    }
}

interface CheckedFile {
  readonly name: string
  readonly index: number
  readonly value: string
  readonly file: string
  readonly language: 'javascript' | HostLanguage
}

function handlerFiles(options: SpoolOptions, home: string): CheckedFile[] {
  const named = [
    ...(['python', 'ruby'] as const).flatMap(language =>
      HOST_OPTIONS[language].flatMap(([name, property]) =>
        options[property].map((value, index) => ({ name, index, value, language })),
      ),
    ),
    ...options.spoolerImport.map((value, index) => ({
      name: 'spooler-import',
      index,
      value,
      language: importLanguage(value, home),
    })),
  ]
  const applications = applicationsOf(options, home).flatMap(application => {
    const { loader, option } = application
    const [value = ''] = application.value.split(':')
    const file =
      loader === 'module' ? value : loader === 'pecan' ? undefined : applicationFile(application, home)
    return file === undefined ? [] : [{ ...application, name: option, value, file: resolve(home, file) }]
  })
  return [...named.map(each => ({ ...each, file: resolve(home, each.value) })), ...applications]
}

/** Returns the module that decides how many processes there are. */
function algorithmFiles({ spoolerCheaper, spoolerCheaperAlgo }: SpoolOptions, home: string): CheckedFile[] {
  if (spoolerCheaper === 0 || !spoolerCheaperAlgo.includes('/')) return []
  const file = resolve(home, spoolerCheaperAlgo)
  return [{ name: 'spooler-cheaper-algo', index: 0, value: file, file, language: 'javascript' }]
}

function interpreterOf(
  language: HostLanguage,
  options: SpoolOptions,
  home: string,
  path: string,
): string | undefined {
  const found = findInterpreter(language, options, home, path)
  return 'missing' in found ? undefined : found.path
}

/**
 * Returns the syntax error of a file; undefined if there is none.
 *
 * @param interpreter undefined: there is none, which is already reported
 */
function syntaxFault(
  language: CheckedFile['language'],
  interpreter: string | undefined,
  file: string,
  nodeOptions: string | undefined,
  as: { readonly uid: number; readonly gid: number } | undefined,
): string | undefined {
  if (language === 'javascript')
    return unsupportedEnding(file, nodeOptions) ?? syntaxErrorIn(file, nodeOptions)
  if (language === 'perl' || interpreter === undefined) return undefined
  const args = language === 'python' ? ['-I', '-c', PYTHON, file] : ['-c', file]
  const { status, stderr } = run(interpreter, args, as)
  if (status === 0 || status === null) return undefined
  const lines = stderr.trimEnd().split('\n')
  const first = language === 'python' ? lines.findLastIndex(line => /^ {2}File /.test(line)) : 0
  return lines.slice(Math.max(0, first)).join('\n').trim()
}

function run(
  interpreter: string,
  args: readonly string[],
  as: { readonly uid: number; readonly gid: number } | undefined,
) {
  return spawnSync(interpreter, args, {
    encoding: 'utf8',
    timeout: PARSE_MS,
    ...(as === undefined ? {} : { uid: as.uid, gid: as.gid }),
  })
}
