import { resolve } from 'node:path'
import type { HostLanguage } from './handlers.js'
import type { Options } from './option-table.js'

/**
 * A web application as uWSGI would load it before it forks its spoolers, which is why what it registers are their
 * handlers.
 */
export interface Application {
  readonly language: HostLanguage
  /** How its host loads it. */
  readonly loader: 'module' | 'file' | 'eval' | 'pecan' | 'paste' | 'psgi' | 'rack' | 'rails'
  readonly value: string
  /** The option that names it, and which of its values. */
  readonly option: string
  readonly index: number
}

/** What names handlers and is no application. */
const OTHER_HANDLERS = [
  'spoolerImport',
  'spoolerExec',
  'sharedImport',
  'import',
  'spoolerPythonImport',
  'perlExec',
  'perlExecPostFork',
  'sharedRbrequire',
  'rbrequire',
] as const

export function hasOtherHandlers(options: Options): boolean {
  return OTHER_HANDLERS.some(name => options[name].length > 0)
}

/**
 * What is loaded, in uWSGI's order (uwsgi_python_init_apps, uwsgi_init_all_apps). With lazy-apps uWSGI's spoolers load
 * none, and often have no handler at all; here they do when nothing else is named.
 */
export function applicationsOf(options: Options, home: string): Application[] {
  if (!options.spoolerLoadApp || (options.lazyApps && hasOtherHandlers(options))) return []
  return namedApplications(options, home)
}

export function namedApplications(options: Options, home: string): Application[] {
  const paste = options.iniPaste === null ? options.paste : `config:${resolve(home, options.iniPaste)}`
  const named = [
    ['python', 'module', 'module', options.module],
    ['python', 'file', 'wsgi-file', options.wsgiFile],
    ['python', 'pecan', 'pecan', options.pecan],
    ['python', 'paste', options.iniPaste === null ? 'paste' : 'ini-paste', paste],
    ['python', 'eval', 'eval', options.eval],
    ['python', 'module', 'web3', options.web3],
    ['python', 'module', 'pump', options.pump],
    ['python', 'module', 'wsgi-lite', options.wsgiLite],
    ['perl', 'psgi', 'psgi', options.psgi],
    ['ruby', 'rack', 'rack', options.rack],
    // uWSGI takes either
    ['ruby', 'rails', 'rails', options.rack === null ? options.rails : null],
  ] as const
  return [
    ...named.flatMap(([language, loader, option, value]): Application[] =>
      value === null ? [] : [{ language, loader, option, value, index: 0 }],
    ),
    ...options.mount.flatMap((value, index) => mounted(value, index, home)),
  ]
}

/** By the end of its name, as uWSGI's plugins do; what none of them takes here is for another language. */
function mounted(text: string, index: number, home: string): Application[] {
  const value = text.slice(text.indexOf('=') + 1)
  const application = (language: HostLanguage, loader: Application['loader'], named = value) => [
    { language, loader, value: named, option: 'mount', index },
  ]
  if (/\.(py|wsgi)$/.test(value)) return application('python', 'file')
  if (value.endsWith('.ini')) return application('python', 'paste', `config:${resolve(home, value)}`)
  if (/\.(psgi|pl)$/.test(value)) return application('perl', 'psgi')
  if (value.endsWith('.ru')) return application('ruby', 'rack')
  return value.includes(':') ? application('python', 'module') : []
}

/** The file that an application is in; undefined for what only its interpreter finds. */
export function applicationFile({ loader, value }: Application, home: string): string | undefined {
  return loader === 'file' || loader === 'psgi' || loader === 'rack' || loader === 'pecan'
    ? resolve(home, value)
    : undefined
}
