import { closeSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { messageOf, SpooldError } from '../../base/errors.js'
import { HOSTS_ROOT } from '../../base/package-root.js'
import { type Application, applicationsOf } from '../../formats/config/applications.js'
import {
  findInterpreter,
  HOST_LANGUAGES,
  HOST_OPTIONS,
  type HostLanguage,
  importLanguage,
  searchPath,
} from '../../formats/config/handlers.js'
import type { SpoolOptions } from '../../formats/config/option-table.js'
import type { ResolvedOptions } from '../../formats/config/options.js'
import { sharedAreaBytes } from '../../formats/config/shared-areas.js'
import { seenByHandlers } from '../../formats/config/shown-settings.js'
import type { SpoolSettings } from '../../formats/config/spools.js'
import { glob } from '../../formats/ini/glob.js'
import { bytesOfValue } from '../../formats/ini/setting.js'
import { withoutLogins } from '../../formats/protocol/hide.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { HandlerSpec, HostOptions } from '../../runtime/ipc/messages.js'
import { openShared } from '../../system/shared-memory.js'

const NAMES = { python: 'Python', perl: 'Perl', ruby: 'Ruby' } as const
const MAIN = { python: 'main.py', perl: 'main.pl', ruby: 'main.rb' } as const

type Settings = HostOptions['settings']

/**
 * The handlers that are tried for each task of a spool, in uWSGI's order: Python, Perl, Ruby; then the kinds that uWSGI does not
 * have, in the order of the configuration.
 *
 * @throws SpooldError CONFIG_INVALID when an interpreter has disappeared since the configuration was checked
 */
export function planChain(spool: SpoolSettings, resolved: ResolvedOptions): HandlerSpec[] {
  const home = process.cwd()
  const others = spool.handlers.flatMap(([name, value]): HandlerSpec[] => {
    if (name === 'spooler-exec')
      return [{ kind: 'exec', command: value, input: spool.options.spoolerExecInput }]
    if (name !== 'spooler-import' || importLanguage(value, home) !== 'javascript') return []
    return [{ kind: 'javascript', file: resolve(value) }]
  })
  const path = searchPath(resolved.environment)
  const languages = languagesOf(spool.options, path, home, others.length > 0)
  const isAlone = languages.length + others.length === 1
  const hosts = languages.map(
    (language): HandlerSpec => ({
      kind: 'host',
      host: planHost(language, spool, resolved, home, isAlone),
    }),
  )
  return [...hosts, ...others]
}

/** Skips a web application whose interpreter is missing, if there are other handlers. The check has warned about it. */
function languagesOf(options: SpoolOptions, path: string, home: string, hasOthers: boolean): HostLanguage[] {
  const named = HOST_LANGUAGES.filter(language => isNeeded(language, options, home))
  const applications = applicationsOf(options, home)
  return HOST_LANGUAGES.filter(language => {
    if (named.includes(language)) return true
    if (applications.every(each => each.language !== language)) return false
    if (!hasOthers && named.length === 0) return true
    return 'path' in findInterpreter(language, options, home, path)
  })
}

function isNeeded(language: HostLanguage, options: SpoolOptions, home: string): boolean {
  return (
    HOST_OPTIONS[language].some(([, property]) => options[property].length > 0) ||
    options.spoolerImport.some(value => importLanguage(value, home) === language)
  )
}

function planHost(
  language: HostLanguage,
  spool: SpoolSettings,
  resolved: ResolvedOptions,
  home: string,
  isAlone: boolean,
): HostOptions {
  const { options } = spool
  const found = findInterpreter(language, options, home, searchPath(resolved.environment))
  if ('missing' in found) throw new SpooldError('CONFIG_INVALID', found.missing)
  const loaded = loads(language, spool, home)
  const applications = applicationsOf(options, home).filter(each => each.language === language)
  const settings = [...loaded, ...applicationSettings(applications, options)]
  if (isAlone) settings.push(['alone', ''])
  if (options.lazyApps) settings.push(['lazy-apps', ''])
  const isInVirtualenv = language === 'python' && options.virtualenv !== null
  return {
    language: NAMES[language],
    command: found.path,
    args: [`${HOSTS_ROOT}/${language}/${MAIN[language]}`],
    environment: isInVirtualenv ? { VIRTUAL_ENV: dirname(dirname(found.path)) } : {},
    home,
    areas: sharedAreaBytes(resolved.options.sharedarea).length,
    files: [
      ...loaded.filter(([name]) => name !== 'path').map(([, file]) => file),
      ...applications.map(({ option, value }) => `${option} = ${value}`),
    ],
    settings: asByteStrings(settings),
  }
}

/** What the hosts of all spools are told. It is made once for all plans, because it names every spool. */
export function planHostSettings(resolved: ResolvedOptions, targets: readonly string[]): Settings {
  return asByteStrings([
    ['masterpid', String(process.pid)],
    ...targets.map(path => ['spooler', spoolName(path)] as const),
    ...[...seenByHandlers(resolved)].flatMap(pairOf),
    ...sharedAreaBytes(resolved.options.sharedarea).map(bytes => ['sharedarea', String(bytes)] as const),
  ])
}

function pairOf([key, value]: readonly [string, string]): Settings {
  return [key, shownOption(key, value)].map(text => ['opt', text])
}

function asByteStrings(settings: Settings): Settings {
  return settings.map(([name, value]) => [name, bytesOfValue(value).toString('latin1')])
}

/** The spool as handlers see and print it: a spool on Redis by its name, which has no login, and which the worker uses, too. */
function spoolName(value: string): string {
  return isRedisAddress(value) ? nameOfRedis(value) : value
}

/** The application's own options may contain addresses, which it needs unchanged. */
function shownOption(key: string, value: string): string {
  if (key === 'spooler' || key === 'spooler-external') return spoolName(value)
  return key === 'spooler2' ? withoutLogins(value) : value
}

function applicationSettings(
  applications: readonly Application[],
  { callable, needApp, pasteLogger, pyargv }: SpoolOptions,
): Array<readonly [string, string]> {
  return [
    ...applications.flatMap(({ option, loader, value }) => [
      ['application', option] as const,
      ['application', loader] as const,
      ['application', value] as const,
    ]),
    ...(callable === null ? [] : [['callable', callable] as const]),
    ...(pyargv === null ? [] : [['pyargv', pyargv] as const]),
    ...(pasteLogger ? [['paste-logger', ''] as const] : []),
    ...(needApp ? [['need-app', ''] as const] : []),
  ]
}

/** What an interpreter loads, and its search path, in the order of the configuration. */
function loads(language: HostLanguage, { options, handlers }: SpoolSettings, home: string) {
  const last = { python: 'spooler-import', perl: 'perl-exec', ruby: 'rbrequire' }[language]
  const paths = { python: options.pythonpath.flatMap(glob), perl: [], ruby: options.rbLib }[language]
  const names: readonly string[] = HOST_OPTIONS[language].map(([name]) => name)
  return [
    ...paths.map(path => ['path', resolve(path)] as const),
    ...handlers.flatMap(([name, value]) => {
      if (name === 'spooler-import')
        return importLanguage(value, home) === language ? [[last, value] as const] : []
      if (!names.includes(name)) return []
      return [[name === 'spooler-python-import' ? last : name, value] as const]
    }),
  ]
}

/**
 * Memory that all workers of a daemon share: unnamed files, which disappear with the last process that has them open.
 */
export class SharedAreas {
  #areas: ReadonlyArray<{ readonly fd: number; readonly bytes: number }> = []

  get fds(): readonly number[] {
    return this.#areas.map(({ fd }) => fd)
  }

  /**
   * Creates the areas. An area whose size has not changed keeps its content, also across a reload.
   *
   * @throws SpooldError START_FAILED
   */
  make(sizes: readonly number[]): void {
    const before = this.#areas
    this.#areas = sizes.map((bytes, i) =>
      before[i]?.bytes === bytes ? before[i] : { fd: open(bytes), bytes },
    )
    for (const area of before) if (!this.#areas.includes(area)) closeSync(area.fd)
  }
}

function open(bytes: number): number {
  try {
    return openShared(bytes)
  } catch (error) {
    throw new SpooldError('START_FAILED', `no memory can be shared (sharedarea): ${messageOf(error)}`, {
      cause: error,
    })
  }
}
