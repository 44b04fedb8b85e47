import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import type { Problems } from '../ini/setting.js'
import { statsOf } from '../system/file-stats.js'
import { syntaxErrorIn, unsupportedEnding } from '../system/module-files.js'
import { applicationFile, applicationsOf } from './applications.js'
import { valuesOf } from './check-handlers.js'
import { findInterpreter, type HostLanguage, importLanguage, searchPath } from './handlers.js'
import { originOf, type ResolvedOptions } from './options.js'

const PARSE_MS = 10_000
/** Parses without writing a compiled file. */
const PYTHON = 'import sys; f = sys.argv[1]; compile(open(f, "rb").read(), f, "exec")'

/**
 * Parses the handler files without running any code. Perl is left out, because it cannot be parsed without running it.
 */
export function checkSyntax(resolved: ResolvedOptions, problems: Problems): void {
  const { options } = resolved
  const home = resolve(options.chdir ?? '.')
  for (const { name, index, file, language } of handlerFiles(resolved, home)) {
    const where = originOf(resolved, name, index)
    if (statsOf(file)?.isFile() !== true) continue // already reported
    const text =
      language === 'javascript'
        ? (unsupportedEnding(file) ?? syntaxErrorIn(file))
        : syntaxErrorOf(language, file, resolved, home)
    if (text !== undefined) problems.error(where, `${name}: ${file} cannot be parsed: ${text}`)
  }
}

interface HandlerFile {
  readonly name: string
  readonly index: number
  readonly file: string
  readonly language: 'javascript' | HostLanguage
}

function handlerFiles({ options }: ResolvedOptions, home: string): HandlerFile[] {
  const values = valuesOf(options)
  const python = ['shared-import', 'import', 'spooler-python-import'] as const
  const ruby = ['shared-rbrequire', 'rbrequire'] as const
  const named = [
    ...python.flatMap(name =>
      values[name].map((value, index) => ({ name, index, value, language: 'python' as const })),
    ),
    ...ruby.flatMap(name =>
      values[name].map((value, index) => ({ name, index, value, language: 'ruby' as const })),
    ),
    ...options.spoolerImport.map((value, index) => ({
      name: 'spooler-import',
      index,
      value,
      language: importLanguage(value, home),
    })),
  ]
  const applications = applicationsOf(options, home).flatMap(application => {
    const file = application.loader === 'pecan' ? undefined : applicationFile(application, home)
    return file === undefined ? [] : [{ ...application, name: application.option, file }]
  })
  return [...named.map(each => ({ ...each, file: resolve(home, each.value) })), ...applications]
}

function syntaxErrorOf(
  language: HostLanguage,
  file: string,
  { options, environment }: ResolvedOptions,
  home: string,
): string | undefined {
  if (language === 'perl') return undefined
  const found = findInterpreter(language, options, home, searchPath(environment))
  if ('missing' in found) return undefined
  const args = language === 'python' ? ['-I', '-c', PYTHON, file] : ['-c', file]
  const { status, stderr } = spawnSync(found.path, args, { encoding: 'utf8', timeout: PARSE_MS })
  if (status === 0 || status === null) return undefined
  const lines = stderr.trimEnd().split('\n')
  const first = language === 'python' ? lines.findLastIndex(line => /^ {2}File /.test(line)) : 0
  return lines.slice(Math.max(0, first)).join('\n').trim()
}
