import { dirname, resolve } from 'node:path'
import { SpooldError } from '../base/errors.js'
import { HOSTS_ROOT } from '../base/package-root.js'
import { type Application, applicationsOf } from '../config/applications.js'
import { valuesOf } from '../config/check-handlers.js'
import {
  findInterpreter,
  HOST_LANGUAGES,
  HOST_OPTIONS,
  type HostLanguage,
  importLanguage,
  searchPath,
} from '../config/handlers.js'
import { findOption } from '../config/option-table.js'
import type { ResolvedOptions } from '../config/options.js'
import { sharedAreaBytes } from '../config/shared-areas.js'
import { glob } from '../ini/glob.js'
import type { HandlerSpec, HostOptions } from '../ipc/messages.js'

const NAMES = { python: 'Python', perl: 'Perl', ruby: 'Ruby' } as const
const MAIN = { python: 'main.py', perl: 'main.pl', ruby: 'main.rb' } as const

/**
 * The handlers that are tried for each task, in uWSGI's order: Python, Perl, Ruby; then the kinds that uWSGI does not
 * have, in the order of the configuration.
 *
 * @throws SpooldError CONFIG_INVALID when an interpreter has disappeared since the configuration was checked
 */
export function planChain(resolved: ResolvedOptions, targets: readonly string[]): HandlerSpec[] {
  const { options, settings } = resolved
  const home = process.cwd()
  const others = settings.flatMap(([key, value]): HandlerSpec[] => {
    const name = findOption(key)?.name
    if (name === 'spooler-exec') return [{ kind: 'exec', command: value, input: options.spoolerExecInput }]
    if (name !== 'spooler-import' || importLanguage(value, home) !== 'javascript') return []
    return [{ kind: 'javascript', file: resolve(value) }]
  })
  const languages = languagesOf(resolved, home, others.length > 0)
  const isAlone = languages.length + others.length === 1
  const hosts = languages.map(
    (language): HandlerSpec => ({ kind: 'host', host: planHost(language, resolved, targets, home, isAlone) }),
  )
  return [...hosts, ...others]
}

/** Skips a web application whose interpreter is missing if there are other handlers. The check has warned about it. */
function languagesOf(resolved: ResolvedOptions, home: string, hasOthers: boolean): HostLanguage[] {
  const { options, environment } = resolved
  const named = HOST_LANGUAGES.filter(language => isNeeded(language, resolved, home))
  const applications = applicationsOf(options, home)
  return HOST_LANGUAGES.filter(language => {
    if (named.includes(language)) return true
    if (applications.every(each => each.language !== language)) return false
    if (!hasOthers && named.length === 0) return true
    return 'path' in findInterpreter(language, options, home, searchPath(environment))
  })
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
  isAlone: boolean,
): HostOptions {
  const { options, environment } = resolved
  const found = findInterpreter(language, options, home, searchPath(environment))
  if ('missing' in found) throw new SpooldError('CONFIG_INVALID', found.missing)
  const settings: Array<readonly [string, string]> = [['masterpid', String(process.pid)]]
  for (const path of targets) settings.push(['spooler', path])
  for (const [key, value] of resolved.settings) settings.push(['opt', key], ['opt', value])
  const areas = sharedAreaBytes(options.sharedarea)
  for (const bytes of areas) settings.push(['sharedarea', String(bytes)])
  const loaded = loads(language, resolved, home)
  const applications = applicationsOf(options, home).filter(each => each.language === language)
  settings.push(...loaded, ...applicationSettings(applications, options))
  if (isAlone) settings.push(['alone', ''])
  return {
    language: NAMES[language],
    command: found.path,
    args: [`${HOSTS_ROOT}/${language}/${MAIN[language]}`],
    environment: language === 'python' ? pythonEnvironment(found.path, options.virtualenv) : {},
    home,
    areas: areas.length,
    files: [
      ...loaded.filter(([name]) => name !== 'path').map(([, file]) => file),
      ...applications.map(({ option, value }) => `${option} = ${value}`),
    ],
    settings,
  }
}

function applicationSettings(
  applications: readonly Application[],
  { callable, needApp, pyargv }: ResolvedOptions['options'],
): Array<readonly [string, string]> {
  return [
    ...applications.flatMap(({ option, loader, value }) => [
      ['application', option] as const,
      ['application', loader] as const,
      ['application', value] as const,
    ]),
    ...(callable === null ? [] : [['callable', callable] as const]),
    ...(pyargv === null ? [] : [['pyargv', pyargv] as const]),
    ...(needApp ? [['need-app', ''] as const] : []),
  ]
}

/** What is to be loaded and the search path for it, in the order of the configuration. */
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
