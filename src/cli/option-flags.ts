import { existsSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { SpooldError } from '../base/errors.js'
import {
  findOption,
  OPTION_TABLE,
  type OptionGroup,
  type OptionSpec,
  optionNames,
} from '../config/option-table.js'
import { type Arity, UWSGI_LETTERS, uwsgiArity, uwsgiNames } from '../config/uwsgi-names.js'
import { LOGIC_KEYS, logicTakesValue } from '../ini/logic.js'
import type { Setting } from '../ini/setting.js'

/** Tells a process that it is the one in the background, with the number of sockets that it was handed. Not for people, so not in the table. */
export const BACKGROUND_FLAG = '--in-background'
/** Tells a process that it is the child of a root parent, with the number of sockets that it was handed. */
export const UNDER_ROOT_FLAG = '--under-root'

const GROUPS: Readonly<Record<OptionGroup, string>> = {
  spools: 'Spools:',
  failures: 'Failures:',
  workers: 'Workers:',
  handlers: 'Handlers:',
  applications: 'Web applications:',
  schedules: 'Signals and schedules:',
  network: 'Network:',
  service: 'Service:',
  log: 'Log:',
  configuration: 'Configuration:',
}

/** commander's own. */
const OTHERS = ['help', 'version']
const OURS = [...optionNames(), ...OTHERS]
const ALL = [...new Set([...OURS, ...LOGIC_KEYS, ...uwsgiNames()])]
const LETTERS: ReadonlyMap<string, string> = new Map([
  ...UWSGI_LETTERS,
  ['h', 'help'],
  ...OPTION_TABLE.flatMap(
    ({ name, short }: OptionSpec): Array<[string, string]> => (short === undefined ? [] : [[short, name]]),
  ),
])

/**
 * Gives a command every option of the table as a flag, and collects what is used into `settings`, in its order, as
 * uWSGI does. uWSGI's other options are accepted too where `argv` has them; reading the configuration names them.
 */
export function addOptionFlags(command: Command, settings: Setting[], argv: readonly string[]): void {
  const collect = (key: string, flag: Option) => {
    command.addOption(flag)
    command.on(`option:${flag.name()}`, (value: string | undefined) => {
      settings.push({ key, value: value ?? '', where: { file: 'command line' } })
    })
  }
  for (const spec of OPTION_TABLE) addOption(spec, collect)
  for (const name of otherNames(argv))
    collect(name, new Option(`--${name}${arityOf(name) === 'flag' ? '' : ' <value>'}`).hideHelp())
}

function addOption(spec: OptionSpec, collect: (key: string, flag: Option) => void): void {
  const value = argumentOf(spec)
  const short = spec.short === undefined ? '' : `-${spec.short}, `
  collect(spec.name, new Option(`${short}--${spec.name}${value}`, helpOf(spec)).helpGroup(GROUPS[spec.group]))
  for (const alias of spec.aliases ?? []) collect(alias, new Option(`--${alias}${value}`).hideHelp())
}

function argumentOf(spec: OptionSpec): string {
  const { value, choices } = spec
  const text = choices === undefined ? (value ?? 'VALUE') : choices.join('|')
  return { flag: '', optional: ` [${text}]`, value: ` <${text}>` }[arityOfOption(spec)]
}

function helpOf({ help, fallback, kind }: OptionSpec): string {
  const isWorthSaying = fallback !== undefined && fallback !== null && kind !== 'flag'
  return isWorthSaying ? `${help} (default: ${fallback})` : help
}

function arityOfOption({ name, kind, value }: OptionSpec): Arity {
  if (name === 'log-date' || name === 'chmod-socket') return 'optional'
  return kind === 'flag' && value === undefined ? 'flag' : 'value'
}

function arityOf(name: string): Arity | undefined {
  const spec = findOption(name)
  if (spec !== undefined) return arityOfOption(spec)
  if (OTHERS.includes(name)) return 'flag'
  if (LOGIC_KEYS.includes(name)) return logicTakesValue(name) ? 'value' : 'optional'
  return uwsgiArity(name)
}

/** The options in a command line that are known, but not ours. */
function otherNames(argv: readonly string[]): string[] {
  const end = argv.indexOf('--')
  const names = argv.slice(0, end < 0 ? argv.length : end).flatMap(arg => /^--([^=]+)/.exec(arg)?.[1] ?? [])
  return [...new Set(names)].filter(name => arityOf(name) !== undefined && !OURS.includes(name))
}

/**
 * Spells out what getopt_long(3) lets people abbreviate, so that uWSGI's command lines work: letters, alone and together
 * (`-Mp4`), names as far as they are unique (`--spooler-proc 3`), values that may be missing. Behind it each option is
 * `--name` or `--name=value`, and nothing that follows it can be taken for its value.
 *
 * @throws SpooldError USAGE `--help` or `--version` was given a value, or one that may be missing stands behind a blank
 */
export function completeAbbreviations(argv: readonly string[]): string[] {
  const spelt: string[] = []
  const rest = [...argv]
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === '--') return [...spelt, arg, ...rest]
    if (arg.startsWith('--')) spelt.push(spellName(arg, rest))
    else if (arg.startsWith('-') && arg !== '-') spelt.push(...spellLetters(arg, rest))
    else spelt.push(arg)
  }
  return spelt
}

/** @param rest what follows; a value is taken from it */
function spellName(arg: string, rest: string[]): string {
  const [, given = '', value] = /^--([^=]*)(?:=(.*))?$/s.exec(arg) ?? []
  const name = arityOf(given) === undefined ? completeName(given) : given
  return name === undefined ? arg : spell(name, value, rest)
}

function spellLetters(arg: string, rest: string[]): string[] {
  const spelt: string[] = []
  for (let at = 1; at < arg.length; at++) {
    const name = LETTERS.get(arg[at] ?? '')
    if (name === undefined) return [...spelt, `-${arg.slice(at)}`] // commander knows what to say
    const behind = arg.slice(at + 1)
    if (arityOf(name) !== 'flag') return [...spelt, spell(name, behind === '' ? undefined : behind, rest)]
    spelt.push(`--${name}`)
  }
  return spelt
}

function spell(name: string, value: string | undefined, rest: string[]): string {
  const arity = arityOf(name)
  if (arity === 'optional') {
    if (value === undefined) refuseBehindBlank(name, rest[0] ?? '')
    return `--${name}=${value ?? ''}`
  }
  if (arity === 'flag') {
    if (value === undefined) return `--${name}`
    if (!OTHERS.includes(name)) return `--set=${name}=${value}` // as a file says it, false too
    throw new SpooldError('USAGE', `--${name} takes no value, got ${JSON.stringify(value)}`)
  }
  const taken = value ?? rest.shift()
  return taken === undefined ? `--${name}` : `--${name}=${taken}`
}

/** As for getopt_long(3), a word behind a value that may be missing is no value, but the name of an ini file. */
function refuseBehindBlank(name: string, word: string): void {
  if (/^$|^-|[./]/.test(word) || existsSync(word.replace(/:[^:]*$/, '')) || existsSync(word)) return
  throw new SpooldError('USAGE', `${word}: no such file; a value of ${name} is written --${name}=${word}`)
}

/** The one name that begins so: of all that uWSGI knows, or else of ours. */
function completeName(given: string): string | undefined {
  for (const names of [ALL, OURS]) {
    const [match, ...more] = names.filter(name => given !== '' && name.startsWith(given))
    if (match !== undefined && more.length === 0) return match
  }
  return undefined
}
