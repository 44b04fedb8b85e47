import { existsSync, realpathSync } from 'node:fs'
import { describe, messageOf } from '../../base/errors.js'
import { DEFAULT_SECTION, readIni } from './lines.js'
import { IniLogic, LOGIC_KEYS } from './logic.js'
import { Magic } from './magic.js'
import { findOddities } from './oddities.js'
import { expandPlaceholders } from './placeholders.js'
import { readIniText } from './read-text.js'
import { isRead, Problems, type Setting, type Where } from './setting.js'

export interface Sources {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The options on the command line, in order. */
  readonly commandLine: readonly Setting[]
  /** The bare arguments of the command line: files, which are read after all options, as in uWSGI. */
  readonly files: readonly string[]
  readonly version: string
  /** True if `if-reload` is to be true. */
  readonly isReload?: boolean
}

export interface Config {
  /** All settings, expanded, in the order in which they count, including those that only controlled the reading. */
  readonly settings: readonly Setting[]
  /** Keys that a `%(…)` or `if-opt` refers to, which are therefore placeholders, not misspelt options. */
  readonly references: ReadonlySet<string>
  readonly files: readonly string[]
  /** True if one of the files has the section that was asked for. */
  readonly hasSection: boolean
  readonly problems: Problems
}

/** Limits that only a configuration that includes or repeats itself exceeds. */
const MAX_FILES = 500
const MAX_SETTINGS = 100_000

/**
 * Variables that are no options: uWSGI's own bookkeeping in the environment (core/utils.c, parse_sys_envs), and ours. Those that
 * say where a program's tasks go are not about the daemon.
 */
const NOT_OPTIONS =
  /^UWSGI_(RELOADS|VASSALS_DIR|EMPEROR_FD|BROODLORD_NUM|EMPEROR_FD_CONFIG|EMPEROR_PROXY|JAIL_PID|ORIGINAL_PROC_NAME)$|^SPOOLD_(TEST_|(ENQUEUE_TO|NAMESPACE|ACTUAL_EMAIL_BACKEND|CLEAR_SESSIONS_PERIODICITY)$)/
/** Variables that Kubernetes sets in every pod for a Service named `spoold…` or `uwsgi…`. */
const SERVICE_LINK =
  /^(?:UWSGI|SPOOLD)(?:_[A-Z0-9_]+)?_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)=|^(?:UWSGI|SPOOLD)(?:_[A-Z0-9_]+)?_PORT=(?:tcp|udp|sctp):\/\//
/** Options that act when they are read (UWSGI_OPT_IMMEDIATE), before placeholders are known. */
const IMMEDIATE = new Set([
  'ini',
  'ini-paste',
  'ini-paste-logged',
  'include',
  'set',
  'set-placeholder',
  'set-ph',
  ...LOGIC_KEYS,
])

/**
 * Reads everything that configures a daemon into one flat list, in uWSGI's order: the environment, the command line, the files;
 * then placeholders; then inherited files. The reader knows the dialect, not the options.
 */
export function readConfig(sources: Sources): Config {
  const reader = new ConfigReader(sources)
  for (const setting of fromEnvironment(sources)) reader.add(setting)
  for (const setting of sources.commandLine) reader.add(setting)
  for (const file of sources.files) reader.readFile(file, { file: COMMAND_LINE }, 'argument')
  return reader.finish()
}

/** The place of a setting from the command line. */
export const COMMAND_LINE = 'command line'
/** The place of a setting from a variable; the variable's name follows. */
export const ENVIRONMENT = 'environment '

/**
 * The variable that tells a web site, too, which ini its daemon runs. It counts only where the command line does not say what to
 * run. Otherwise an ini would be read twice, or a test would drain the spool of the site.
 */
const INI_OF_SITE = 'SPOOLD_INI'
const SAYS_WHAT_TO_RUN = new Set(['ini', 'spooler', 'spooler2', 'spooler-external'])

/** Reads the variables: `UWSGI_SPOOLER_FREQUENCY=5` and `SPOOLD_SPOOLER_FREQUENCY=5` mean `spooler-frequency = 5`. */
function fromEnvironment({ environment, commandLine, files }: Sources): Setting[] {
  const isSaid = files.length > 0 || commandLine.some(({ key }) => SAYS_WHAT_TO_RUN.has(key))
  return Object.entries(environment).flatMap(([name, value]) => {
    const [, key] = /^(?:UWSGI|SPOOLD)_(.*)$/s.exec(name) ?? []
    if (key === undefined || value === undefined || NOT_OPTIONS.test(name)) return []
    if (name === INI_OF_SITE && isSaid) return []
    if (SERVICE_LINK.test(`${name}=${value}`)) return []
    return [{ key: key.toLowerCase().replaceAll('_', '-'), value, where: { file: `${ENVIRONMENT}${name}` } }]
  })
}

/** What asked for a file: only `ini` accepts any extension; an included file never sets the upper-case magic variables. */
type Asker = 'argument' | 'ini' | 'include' | 'inherit'

class ConfigReader {
  readonly #problems = new Problems()
  readonly #logic: IniLogic
  readonly #magic: Magic
  readonly #variable: (name: string) => string | undefined
  #settings: Setting[] = []
  /** The first value of each key, for conditions and loops. */
  readonly #firstValues = new Map<string, string>()
  readonly #files: string[] = []
  /** The files and sections being read, each included or inherited by the previous one. */
  #reading: string[] = []
  #hasFirst = false
  #lastFile = ''
  /**
   * True while a rule yields settings: what a rule lets through is not subject to another rule (core/config.c,
   * logic_opt_running).
   */
  #isInLogic = false
  #isInherited = false
  #isOverfull = false
  #hasSection = false

  constructor({ environment, version, isReload = false }: Sources) {
    this.#variable = name => (Object.hasOwn(environment, name) ? environment[name] : undefined)
    this.#logic = new IniLogic(this.#problems, {
      ...{ variable: this.#variable, isReload },
      option: name => this.#firstValues.get(name),
    })
    this.#magic = new Magic(version)
  }

  add(setting: Setting): void {
    if (this.#isInLogic || this.#logic.turn(setting) || !this.#logic.isOpen) return this.#keep(setting)
    this.#isInLogic = true
    for (const each of this.#logic.apply(setting)) {
      if (this.#isOverfull) break
      this.#keep(each)
    }
    this.#isInLogic = false
  }

  readFile(name: string, where: Where, asker: Asker): void {
    const { named, section } = splitName(name)
    const file = named === '' ? this.#lastFile : named
    const problem = this.#refusal(file, asker)
    if (problem !== undefined) return this.#problems.error(where, problem)
    const opened = this.#open(named, file, section, where, asker)
    if (opened === undefined) return
    this.#files.push(file)
    this.#reading.push(opened.identity)
    this.#readSection(opened.text, file, section || DEFAULT_SECTION, where)
    this.#reading.pop()
  }

  finish(): Config {
    const references = referencesOf(this.#settings)
    this.#settings = expandPlaceholders(this.#settings, this.#variable, this.#problems)
    this.#firstValues.clear()
    for (const setting of this.#settings) this.#noteFirst(setting)
    this.#isInherited = true
    // the files that an inherited file inherits come after all of it
    for (let i = 0; i < this.#settings.length; i++) {
      const { key, value, where, broughtBy = [] } = this.#settings[i] ?? NONE
      if (key !== 'inherit') continue
      this.#reading = [...broughtBy]
      this.readFile(value, where, 'inherit')
    }
    this.#logic.finish()
    return {
      settings: this.#settings,
      references,
      files: [...new Set(this.#files)],
      hasSection: this.#hasSection,
      problems: this.#problems,
    }
  }

  /** Returns the text of a file. The magic variables refer to its section from now on. */
  #open(named: string, file: string, section: string, where: Where, asker: Asker) {
    try {
      const text = readIniText(file)
      const identity = `${file === '-' ? file : realpathSync(file)}:${section || DEFAULT_SECTION}`
      if (this.#reading.includes(identity))
        throw new Error(`it ${asker === 'inherit' ? 'inherits' : 'includes'} itself`)
      const isFirst =
        !this.#hasFirst && this.#reading.length === 0 && (asker === 'ini' || asker === 'argument')
      this.#magic.enter(named, section, isFirst)
      if (file !== '-') this.#hasFirst ||= isFirst
      this.#lastFile = file
      return { text, identity }
    } catch (error) {
      const isTooEarly = asker !== 'inherit' && /[$%@]\(/.test(file)
      this.#problems.error(
        where,
        `${file} cannot be read: ${messageOf(error)}${isTooEarly ? ` (${asker} acts before placeholders are known)` : ''}`,
      )
      return undefined
    }
  }

  #readSection(text: string, file: string, section: string, where: Where): void {
    for (const { number, text: message } of findOddities(text, section, this.#magic))
      this.#problems.warning({ file, line: number }, message)
    const { settings, sections } = readIni(this.#magic.expand(text), file, section)
    this.#hasSection ||= sections.includes(section)
    if (!sections.includes(section))
      this.#problems.warning(
        where,
        `${file} has no section [${section}]; it has ${sections.map(each => `[${each}]`).join(', ') || 'none'}${
          sections.some(each => each.toLowerCase() === section.toLowerCase()) ? ' (capitals matter)' : ''
        }`,
      )
    else if (settings.length === 0)
      this.#problems.warning(where, `the section [${section}] of ${file} is empty`)
    for (const setting of settings) this.add(setting)
  }

  #keep(given: Setting): void {
    const actsNow = IMMEDIATE.has(given.key) || given.key === 'inherit'
    if (this.#isOverfull || (actsNow && !isRead(given, this.#problems))) return
    if (this.#settings.length >= MAX_SETTINGS) {
      this.#isOverfull = true
      return this.#problems.error(
        given.where,
        `expected at most ${MAX_SETTINGS} settings; the rest is not read`,
      )
    }
    const setting = this.#isInherited || IMMEDIATE.has(given.key) ? { ...given, isLiteral: true } : given
    this.#settings.push(given.key === 'inherit' ? { ...setting, broughtBy: [...this.#reading] } : setting)
    this.#noteFirst(setting)
    this.#logic.begin(setting)
    switch (setting.key) {
      case 'ini':
      case 'include':
        return this.readFile(setting.value, setting.where, setting.key)
      case 'ini-paste-logged':
        this.#keep({ key: 'paste-logger', value: 'true', where: setting.where })
        return this.readFile(setting.value, setting.where, 'ini')
      case 'ini-paste':
        return this.readFile(setting.value, setting.where, 'ini')
      case 'set':
      case 'set-placeholder':
      case 'set-ph':
        return this.#set(setting)
    }
  }

  #noteFirst({ key, value }: Setting): void {
    if (!this.#firstValues.has(key)) this.#firstValues.set(key, value)
  }

  #set({ key, value, where }: Setting): void {
    const cut = value.indexOf('=')
    if (cut < 0) return this.#problems.error(where, `${key}: expected KEY=VALUE, got ${describe(value)}`)
    const setting = { key: value.slice(0, cut), value: value.slice(cut + 1), where }
    // uWSGI uses the text of a placeholder and never expands the placeholder itself
    this.#keep(key === 'set' ? setting : { ...setting, isPlaceholder: true, isLiteral: true })
  }

  #refusal(file: string, asker: Asker): string | undefined {
    if (file === '') return `${asker}: expected FILE or FILE:SECTION, got nothing`
    if (asker !== 'ini' && /\.(xml|ya?ml|js|json)$/.test(file))
      return `${file}: expected an ini file; spoold reads no other kind, so convert it`
    if (this.#files.length >= MAX_FILES)
      return `${file} is not read, because ${MAX_FILES} files were: does one include or inherit itself?`
    return undefined
  }
}

const NONE: Setting = { key: '', value: '', where: { file: '' } }

/** Splits `file:section` at the last colon, unless the colon is part of a file's name. */
function splitName(name: string): { named: string; section: string } {
  const cut = name.lastIndexOf(':')
  if (cut < 0 || /^[a-z]+:\/\//.test(name) || existsSync(name)) return { named: name, section: '' }
  return { named: name.slice(0, cut), section: name.slice(cut + 1) }
}

function referencesOf(settings: readonly Setting[]): Set<string> {
  return new Set(
    settings.flatMap(({ key, value }) => {
      if (key === 'if-opt' || key === 'if-not-opt') return [value.split('=', 1)[0] ?? '']
      return [...value.matchAll(/%\(([^()]*)/g)].flatMap(([, names = '']) => names.split(' '))
    }),
  )
}
