import { readFileSync } from 'node:fs'
import { messageOf } from '../base/errors.js'
import { DEFAULT_SECTION, readIni } from './ini-lines.js'
import { IniLogic } from './ini-logic.js'
import { asFirst, expandMagic, type MagicTable, magicTable } from './magic.js'
import { expandPlaceholders } from './placeholders.js'
import { Problems, type Setting, type Where } from './setting.js'

export interface Sources {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The options of the command line in their order. */
  readonly commandLine: readonly Setting[]
  /** Its bare arguments: files, read after the options wherever they stand, as uWSGI does. */
  readonly files: readonly string[]
  readonly version: string
}

export interface Config {
  /** In the order in which they count, expanded. */
  readonly settings: readonly Setting[]
  /** Keys that some `%(…)` refers to: placeholders, not misspelt options. */
  readonly references: ReadonlySet<string>
  readonly files: readonly string[]
  readonly problems: Problems
}

const MAX_DEPTH = 32
/** uWSGI's own bookkeeping in the environment (core/utils.c, parse_sys_envs). */
const NOT_OPTIONS =
  /^UWSGI_(RELOADS|VASSALS_DIR|EMPEROR_FD|BROODLORD_NUM|EMPEROR_FD_CONFIG|EMPEROR_PROXY|JAIL_PID|ORIGINAL_PROC_NAME)$|^SPOOLD_TEST_/

/**
 * Reads everything that configures a daemon into one flat list, in uWSGI's order: the environment, the command line, the
 * files; then placeholders; then what was inherited. It knows the dialect, not the options.
 */
export function readConfig(sources: Sources): Config {
  const reader = new ConfigReader(sources.version)
  for (const setting of fromEnvironment(sources.environment)) reader.add(setting)
  for (const setting of sources.commandLine) reader.add(setting)
  for (const file of sources.files) reader.readFile(file, { file: 'command line' }, false)
  return reader.finish()
}

/** `UWSGI_SPOOLER_FREQUENCY=5` and `SPOOLD_SPOOLER_FREQUENCY=5` are `spooler-frequency = 5`. */
function fromEnvironment(environment: Sources['environment']): Setting[] {
  return Object.entries(environment).flatMap(([name, value]) => {
    const [, key] = /^(?:UWSGI|SPOOLD)_(.+)$/.exec(name) ?? []
    if (key === undefined || value === undefined || NOT_OPTIONS.test(name)) return []
    return [{ key: key.toLowerCase().replaceAll('_', '-'), value, where: { file: `environment ${name}` } }]
  })
}

class ConfigReader {
  readonly #version: string
  readonly #problems = new Problems()
  readonly #logic = new IniLogic(this.#problems)
  readonly #settings: Setting[] = []
  /** The first value of each key: what logic and placeholders see. */
  readonly #firstValues = new Map<string, string>()
  readonly #files: string[] = []
  readonly #open: string[] = []
  #firstMagic: MagicTable | undefined
  #lastFile = ''
  /** A rule's own lines are not put to a rule again (core/config.c, logic_opt_running). */
  #isInLogic = false
  #isLiteral = false

  constructor(version: string) {
    this.#version = version
  }

  add(setting: Setting): void {
    if (this.#isInLogic) return this.#keep(setting)
    const settings = this.#logic.apply(setting, this.#firstValues)
    this.#isInLogic = settings.length !== 1 || settings[0] !== setting
    for (const each of settings) this.#keep(each)
    this.#isInLogic = false
  }

  /** @param isInclude uWSGI keeps the magic of capital letters for the file that is named on the command line */
  readFile(name: string, where: Where, isInclude: boolean): void {
    const [, named = '', section = DEFAULT_SECTION] = /^(.*?)(?::([^/:]*))?$/s.exec(name) ?? []
    const file = named === '' ? this.#lastFile : named
    if (/\.(xml|ya?ml|js|json)$/.test(file))
      return this.#problems.error(where, `${file}: only ini files are read; convert it`)
    if (this.#open.length >= MAX_DEPTH)
      return this.#problems.error(
        where,
        `${file} is included ${MAX_DEPTH} levels deep: does it include itself?`,
      )
    const text = this.#textOf(file, section, where, isInclude)
    if (text === undefined) return
    this.#lastFile = file
    this.#files.push(file)
    this.#open.push(file)
    const { settings, sections } = readIni(text, file, section)
    if (!sections.includes(section))
      this.#problems.warning(
        where,
        `${file} has no section [${section}]; it has ${sections.map(each => `[${each}]`).join(', ') || 'none'}`,
      )
    for (const setting of settings) this.add(setting)
    this.#open.pop()
  }

  finish(): Config {
    const references = new Set(
      this.#settings.flatMap(({ value }) =>
        [...value.matchAll(/%\(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(' ')),
      ),
    )
    const expanded = expandPlaceholders(this.#settings, this.#problems)
    this.#settings.length = 0
    this.#isLiteral = true
    for (const { value, where } of expanded.filter(({ key }) => key === 'inherit'))
      this.readFile(value, where, true)
    return {
      settings: [...expanded, ...this.#settings],
      references,
      files: this.#files,
      problems: this.#problems,
    }
  }

  #keep(given: Setting): void {
    const setting = this.#isLiteral ? { ...given, isLiteral: true } : given
    this.#settings.push(setting)
    if (!this.#firstValues.has(setting.key)) this.#firstValues.set(setting.key, setting.value)
    switch (setting.key) {
      case 'ini':
        return this.readFile(setting.value, setting.where, this.#open.length > 0)
      case 'include':
        return this.readFile(setting.value, setting.where, true)
      case 'set':
      case 'set-placeholder':
      case 'set-ph':
        return this.#set(setting)
    }
  }

  #set({ key, value, where }: Setting): void {
    const cut = value.indexOf('=')
    if (cut < 0) return this.#problems.error(where, `${key} expects KEY=VALUE, got "${value}"`)
    this.#keep({ key: value.slice(0, cut), value: value.slice(cut + 1), where })
  }

  #textOf(file: string, section: string, where: Where, isInclude: boolean): string | undefined {
    try {
      const text = readFileSync(file === '-' ? 0 : file, 'utf8')
      if (file === '-') return text
      const table = magicTable(
        file,
        section === DEFAULT_SECTION ? '' : section,
        this.#firstMagic,
        this.#version,
      )
      if (this.#firstMagic !== undefined || isInclude) return expandMagic(text, table)
      this.#firstMagic = asFirst(table)
      return expandMagic(text, this.#firstMagic)
    } catch (error) {
      const hint = /[$%@]\(/.test(file)
        ? ' (placeholders are not expanded here, as in uWSGI: it is read too early)'
        : ''
      this.#problems.error(where, `the configuration file ${file} cannot be read: ${messageOf(error)}${hint}`)
      return undefined
    }
  }
}
