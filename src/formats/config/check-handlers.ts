import { resolve } from 'node:path'
import { statsOf, whyUnreadable } from '../../system/file-stats.js'
import type { Problems, Where } from '../ini/setting.js'
import {
  type Application,
  applicationFile,
  applicationsOf,
  isLeftOut,
  namedApplications,
} from './applications.js'
import {
  findInterpreter,
  HOST_LANGUAGES,
  HOST_OPTIONS,
  type HostLanguage,
  hasOtherHandlers,
  importLanguage,
  searchPath,
} from './handlers.js'
import type { SpoolOptions } from './option-table.js'
import { originOf, type ResolvedOptions } from './options.js'
import { labelOf, type SpoolSettings } from './spools.js'

/** Checks the files of a spool's handlers, and the interpreters that they need. */
export function checkHandlers(
  spool: SpoolSettings,
  { environment }: ResolvedOptions,
  home: string,
  problems: Problems,
): void {
  const { options } = spool
  const where = (name: string, i = 0) => originOf(spool, name, i)
  const checkFile = (name: string, value: string, i: number) =>
    checkReadable(labelOf(spool, name), resolve(home, value), where(name, i), problems)
  /** Where each language was first asked for. */
  const needed = new Map<string, Where>()
  for (const [i, value] of options.spoolerImport.entries()) {
    const origin = where('spooler-import', i)
    const language = importLanguage(value, home)
    if (language !== 'javascript' && !needed.has(language)) needed.set(language, origin)
    if (language === 'javascript' || isFile('spooler-import', value)) checkFile('spooler-import', value, i)
  }
  for (const language of HOST_LANGUAGES)
    for (const [name, property] of HOST_OPTIONS[language])
      for (const [i, value] of options[property].entries()) {
        if (!needed.has(language)) needed.set(language, where(name, i))
        if (isFile(name, value)) checkFile(name, value, i)
        if (/\.[cm]?[jt]s$/.test(value))
          problems.error(
            where(name, i),
            `${labelOf(spool, name)}: expected ${HOST_NAMES[language]}, got ${value}; for JavaScript write spooler-import = ${value}`,
          )
      }
  for (const [i, command] of options.spoolerExec.entries())
    checkCommand(command, spool, home, where('spooler-exec', i), problems)
  const missing = (language: HostLanguage) => {
    const found = findInterpreter(language, options, home, searchPath(environment))
    return 'missing' in found ? found.missing : undefined
  }
  for (const language of HOST_LANGUAGES) {
    const origin = needed.get(language)
    const text = origin && missing(language)
    if (origin !== undefined && text !== undefined) problems.error(origin, text)
  }
  const [leftOut] = isLeftOut(options) ? namedApplications(options, home) : []
  if (leftOut !== undefined)
    problems.warning(
      where('lazy-apps'),
      `lazy-apps: what ${leftOut.option} names is not loaded for the spoolers, as in uWSGI; spooler-load-app = on loads it, and off says that this is meant`,
    )
  const hasOthers = hasOtherHandlers(options)
  for (const application of applicationsOf(options, home)) {
    if (options.lazyApps && options.spoolerLoadApp === 'auto')
      problems.warning(
        where('lazy-apps'),
        `lazy-apps: uWSGI's spoolers would have no handler; what ${application.option} names is loaded all the same, because nothing else is`,
      )
    const text =
      unreadable(labelOf(spool, application.option), application, home) ??
      (needed.has(application.language) ? undefined : missing(application.language))
    if (text === undefined) continue
    const origin = where(application.option, application.index)
    // with other handlers, the daemon starts without the application
    if (hasOthers && !options.needApp) problems.warning(origin, `${text}; the application is not loaded`)
    else problems.error(origin, text)
  }
}

const HOST_NAMES: Readonly<Record<HostLanguage, string>> = { python: 'Python', perl: 'Perl', ruby: 'Ruby' }

/** Warns about a relative program that exists next to the ini file: commands run in the task's directory. */
function checkCommand(
  command: string,
  spool: SpoolSettings,
  home: string,
  where: Where,
  problems: Problems,
): void {
  const [, program = ''] = /^\s*(\.{0,2}[\w.-]*\/[\w./-]+)/.exec(command) ?? []
  if (program === '' || program.startsWith('/')) return
  if (spool.options.spoolerChdir !== null) return
  if (statsOf(resolve(home, program)) === undefined) return
  problems.warning(
    where,
    `${labelOf(spool, 'spooler-exec')}: ${program} is looked for in the directory of the task, not in ${home}; write ${resolve(home, program)}, or set spooler-chdir`,
  )
}

function unreadable(name: string, application: Application, home: string): string | undefined {
  const file = applicationFile(application, home)
  const why = file === undefined ? undefined : whyUnreadable(resolve(home, file))
  return why === undefined ? undefined : `${name}: ${file} cannot be read: ${why}`
}

export function hasHandlers(options: SpoolOptions): boolean {
  return hasOtherHandlers(options) || applicationsOf(options, '').length > 0
}

export function noHandlerMessage(options: SpoolOptions): string {
  const [application] = namedApplications(options, '')
  if (application !== undefined)
    return `there is no handler: spooler-load-app = off leaves out the application that ${application.option} names; add spooler-import = FILE, or remove spooler-load-app`
  return 'there is no handler; add spooler-import = FILE (JavaScript or Python), perl-exec, rbrequire, spooler-exec = COMMAND, or name the web application that registers it (module, wsgi-file, psgi, rack)'
}

/**
 * True if the value is a file. Any other value is a module, which its interpreter finds; for Ruby, that is any value but a path
 * that ends in `.rb`.
 */
function isFile(name: string, value: string): boolean {
  if (name.startsWith('perl-')) return true
  if (name.endsWith('rbrequire')) return /^\.{0,2}\/.*\.rb$/.test(value)
  return value.includes('/') || /^\.|\.(py|pl|rb)$/.test(value)
}

function checkReadable(name: string, path: string, where: Where, problems: Problems): void {
  const why = whyUnreadable(path)
  if (why !== undefined) return problems.error(where, `${name}: ${path} cannot be read: ${why}`)
  const isPackage = name.includes('import') && statsOf(`${path}/__init__.py`)?.isFile() === true
  if (!statsOf(path)?.isFile() && !isPackage) problems.error(where, `${name}: expected a file, got ${path}`)
}
