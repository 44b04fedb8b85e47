import { existsSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { SpooldError } from '../../base/errors.js'
import {
  findOption,
  OPTION_TABLE,
  type OptionGroup,
  type OptionSpec,
  optionNames,
} from '../../formats/config/option-table.js'
import { type Arity, UWSGI_LETTERS, uwsgiArity, uwsgiNames } from '../../formats/config/uwsgi-names.js'
import { LOGIC_KEYS, logicTakesValue } from '../../formats/ini/logic.js'
import { COMMAND_LINE } from '../../formats/ini/read-config.js'
import type { Setting } from '../../formats/ini/setting.js'

/** Marks the background process, with the number of sockets passed to it. Internal, so not in the option table. */
export const BACKGROUND_FLAG = '--in-background'
/** Marks the child of a root parent, with the number of sockets passed to it. */
export const UNDER_ROOT_FLAG = '--under-root'

const GROUPS: Readonly<Record<OptionGroup, string>> = {
  spools: 'Spools:',
  failures: 'Failures:',
  workers: 'Workers:',
  scaling: 'Adaptive processes:',
  handlers: 'Handlers:',
  applications: 'Web applications:',
  schedules: 'Signals and schedules:',
  network: 'Network:',
  monitoring: 'Monitoring:',
  service: 'Service:',
  log: 'Log:',
  configuration: 'Configuration:',
}

/** commander's own flags. */
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
 * Adds every option of the table to a command as a flag, and collects the options used into `settings`, in order, as uWSGI
 * does. Other uWSGI options in `argv` are accepted too; reading the configuration reports them.
 */
export function addOptionFlags(command: Command, settings: Setting[], argv: readonly string[]): void {
  const collect = (key: string, flag: Option) => {
    command.addOption(flag)
    command.on(`option:${flag.name()}`, (value: string | undefined) => {
      settings.push({ key, value: value ?? '', where: { file: COMMAND_LINE } })
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
  for (const alias of [...(spec.aliases ?? []), ...(spec.plain ?? [])])
    collect(alias, new Option(`--${alias}${value}`).hideHelp())
}

function argumentOf(spec: OptionSpec): string {
  const { value, choices } = spec
  const text = value ?? choices?.join('|') ?? 'VALUE'
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

/** Returns the options of a command line that uWSGI knows but spoold does not define. */
function otherNames(argv: readonly string[]): string[] {
  const end = argv.indexOf('--')
  const names = argv.slice(0, end < 0 ? argv.length : end).flatMap(arg => /^--([^=]+)/.exec(arg)?.[1] ?? [])
  return [...new Set(names)].filter(name => arityOf(name) !== undefined && !OURS.includes(name))
}

/**
 * Expands the abbreviations of getopt_long(3), so that uWSGI's command lines work: letters, single or combined (`-Mp4`),
 * unique prefixes of names (`--spooler-proc 3`), and optional values. In the result each option is `--name` or
 * `--name=value`, so that commander never takes the next argument for its value.
 *
 * @throws SpooldError USAGE if `--help` or `--version` has a value, or an optional value is separated by a blank
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

/** Returns an option with its full name. @param rest the arguments behind the option; its value is removed from them */
function spellName(arg: string, rest: string[]): string {
  const [, given = '', value] = /^--([^=]*)(?:=(.*))?$/s.exec(arg) ?? []
  const name = arityOf(given) === undefined ? completeName(given) : given
  return name === undefined ? arg : spell(name, value, rest)
}

function spellLetters(arg: string, rest: string[]): string[] {
  const spelt: string[] = []
  for (let at = 1; at < arg.length; at++) {
    const name = LETTERS.get(arg[at] ?? '')
    if (name === undefined) return [...spelt, `-${arg.slice(at)}`] // commander reports it
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
    if (!OTHERS.includes(name)) return `--set=${name}=${value}` // as in a file, so that `false` works too
    throw new SpooldError('USAGE', `--${name} takes no value, got ${JSON.stringify(value)}`)
  }
  const taken = value ?? rest.shift()
  return taken === undefined ? `--${name}` : `--${name}=${taken}`
}

/** Refuses a word that is meant as an optional value. As in getopt_long(3), a separate word is not the value, but an ini file. */
function refuseBehindBlank(name: string, word: string): void {
  if (/^$|^-|[./]/.test(word) || existsSync(word.replace(/:[^:]*$/, '')) || existsSync(word)) return
  throw new SpooldError('USAGE', `${word}: no such file; a value of ${name} is written --${name}=${word}`)
}

const MOST_NAMED = 8

/**
 * Returns the only name with this prefix: among all that uWSGI knows or, failing that, among ours.
 *
 * @returns undefined if no name has the prefix
 * @throws SpooldError USAGE if several names have it
 */
function completeName(given: string): string | undefined {
  if (given === '') return undefined
  const fits = [ALL, OURS].map(names => names.filter(name => name.startsWith(given)))
  for (const [match, ...more] of fits) if (match !== undefined && more.length === 0) return match
  const [of = []] = fits.filter(names => names.length > 0).toReversed()
  if (of.length === 0) return undefined
  const named = of.slice(0, MOST_NAMED).map(name => `--${name}`)
  const others = of.length > named.length ? ` and ${of.length - named.length} more` : ''
  throw new SpooldError('USAGE', `--${given} is ambiguous: it may be ${named.join(', ')}${others}`)
}
