import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SpooldError } from './base/errors.js'
import { valuesOf } from './config/check-handlers.js'
import { glob } from './config/glob.js'
import {
  findInterpreter,
  HOST_LANGUAGES,
  HOST_OPTIONS,
  type HostLanguage,
  importLanguage,
  searchPath,
} from './config/handlers.js'
import { findOption } from './config/option-table.js'
import type { ResolvedOptions } from './config/options.js'
import type { HostOptions, Link } from './ipc/messages.js'

const HOSTS = fileURLToPath(new URL('../src/worker/hosts', import.meta.url))
const NAMES = { python: 'Python', perl: 'Perl', ruby: 'Ruby' } as const
const MAIN = { python: 'main.py', perl: 'main.pl', ruby: 'main.rb' } as const

/**
 * Who is asked for each task, in uWSGI's order: Python, Perl, Ruby; then what uWSGI has not, in the order given.
 *
 * @throws SpooldError CONFIG_INVALID when an interpreter has gone since the configuration was checked
 */
export function planChain(resolved: ResolvedOptions, targets: readonly string[]): Link[] {
  const { options, settings } = resolved
  const home = process.cwd()
  const hosts = HOST_LANGUAGES.filter(language => isNeeded(language, resolved, home)).map(
    (language): Link => ({ kind: 'host', host: planHost(language, resolved, targets, home) }),
  )
  const others = settings.flatMap(([key, value]): Link[] => {
    const name = findOption(key)?.name
    if (name === 'spooler-exec') return [{ kind: 'exec', command: value, input: options.spoolerExecInput }]
    if (name !== 'spooler-import' || importLanguage(value, home) !== 'javascript') return []
    return [{ kind: 'javascript', file: resolve(value) }]
  })
  return [...hosts, ...others]
}

function isNeeded(language: HostLanguage, { options }: ResolvedOptions, home: string): boolean {
  const values = valuesOf(options)
  return (
    HOST_OPTIONS[language].some(name => values[name].length > 0) ||
    options.spoolerImport.some(value => importLanguage(value, home) === language)
  )
}

function planHost(
  language: HostLanguage,
  resolved: ResolvedOptions,
  targets: readonly string[],
  home: string,
): HostOptions {
  const { options, environment } = resolved
  const found = findInterpreter(language, options, home, searchPath(environment))
  if ('missing' in found) throw new SpooldError('CONFIG_INVALID', found.missing)
  const settings: Array<readonly [string, string]> = [['masterpid', String(process.pid)]]
  for (const path of targets) settings.push(['spooler', path])
  for (const [key, value] of resolved.settings) settings.push(['opt', key], ['opt', value])
  const loaded = loads(language, resolved, home)
  settings.push(...loaded)
  return {
    language: NAMES[language],
    command: found.path,
    args: [`${HOSTS}/${language}/${MAIN[language]}`],
    environment: language === 'python' ? pythonEnvironment(found.path, options.virtualenv) : {},
    home,
    files: loaded.filter(([name]) => name !== 'path').map(([, file]) => file),
    settings,
  }
}

/** What is to be loaded, and from where, in the order of the configuration. */
function loads(language: HostLanguage, { options, settings }: ResolvedOptions, home: string) {
  const last = { python: 'spooler-import', perl: 'perl-exec', ruby: 'rbrequire' }[language]
  const paths = { python: options.pythonpath.flatMap(glob), perl: [], ruby: options.rbLib }[language]
  const names: readonly string[] = HOST_OPTIONS[language]
  return [
    ...paths.map(path => ['path', resolve(path)] as const),
    ...settings.flatMap(([key, value]) => {
      const name = findOption(key)?.name ?? ''
      if (name === 'spooler-import')
        return importLanguage(value, home) === language ? [[last, value] as const] : []
      if (!names.includes(name)) return []
      return [[name === 'spooler-python-import' ? last : name, value] as const]
    }),
  ]
}

function pythonEnvironment(command: string, virtualenv: string | null): Record<string, string> {
  return virtualenv === null ? {} : { VIRTUAL_ENV: dirname(dirname(command)) }
}
