import { resolve } from 'node:path'
import { type HostLanguage, hasOtherHandlers } from './handlers.js'
import type { SpoolOptions } from './option-table.js'

/**
 * A web application. uWSGI loads it before it forks its spoolers, so they inherit the handlers that it registers.
 */
export interface Application {
  readonly language: HostLanguage
  /** How the host process loads it. */
  readonly loader: 'module' | 'file' | 'eval' | 'pecan' | 'paste' | 'psgi' | 'rack' | 'rails'
  readonly value: string
  /** The option that names it, and the index in that option's values. */
  readonly option: string
  readonly index: number
}

/**
 * Returns the applications to load, in uWSGI's order (uwsgi_python_init_apps, uwsgi_init_all_apps). With lazy-apps, uWSGI's
 * spoolers load none and often have no handler at all; here they are loaded if no other handlers are configured.
 */
export function applicationsOf(options: SpoolOptions, home: string): Application[] {
  const isLoaded = options.spoolerLoadApp === 'auto' ? !isLeftOut(options) : options.spoolerLoadApp
  return isLoaded ? namedApplications(options, home) : []
}

/** True if `spooler-load-app` leaves it open whether the application is loaded, and uWSGI's spoolers would not have it. */
export function isLeftOut(options: SpoolOptions): boolean {
  return options.spoolerLoadApp === 'auto' && options.lazyApps && hasOtherHandlers(options)
}

export function namedApplications(options: SpoolOptions, home: string): Application[] {
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
    // uWSGI uses only one of the two
    ['ruby', 'rails', 'rails', options.rack === null ? options.rails : null],
  ] as const
  return [
    ...named.flatMap(([language, loader, option, value]): Application[] =>
      value === null ? [] : [{ language, loader, option, value, index: 0 }],
    ),
    ...options.mount.flatMap((value, index) => mounted(value, index, home)),
  ]
}

/**
 * Returns the application of a `mount`. The language follows from the file name extension, as in uWSGI's plugins. Returns none if
 * no extension matches, because the language has no host here.
 */
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

/** Returns the application's file; undefined if only its interpreter can find it. */
export function applicationFile({ loader, value }: Application, home: string): string | undefined {
  return loader === 'file' || loader === 'psgi' || loader === 'rack' || loader === 'pecan'
    ? resolve(home, value)
    : undefined
}
