import { type Command, Option } from 'commander'
import { OPTION_TABLE, type OptionGroup, type OptionSpec, optionNames } from '../config/option-table.js'
import type { Setting } from '../config/setting.js'
import { UWSGI_LETTERS, uwsgiArity } from '../config/uwsgi-names.js'

/** Tells a process that it is the one in the background. Not for people, so not in the table. */
export const BACKGROUND_FLAG = '--in-background'

const GROUPS: Readonly<Record<OptionGroup, string>> = {
  spools: 'Spools:',
  workers: 'Workers:',
  handlers: 'Handlers:',
  service: 'Service:',
  log: 'Log:',
  configuration: 'Configuration:',
}

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
  for (const name of usedUwsgiNames(argv)) {
    const letter = Object.keys(UWSGI_LETTERS).find(each => UWSGI_LETTERS[each] === name)
    const flags = `${letter === undefined ? '' : `-${letter}, `}--${name}${uwsgiArity(name) === 'value' ? ' <value>' : ''}`
    collect(name, new Option(flags).hideHelp())
  }
}

function addOption(spec: OptionSpec, collect: (key: string, flag: Option) => void): void {
  const value = spec.kind === 'flag' ? '' : argumentOf(spec)
  const short = spec.short === undefined ? '' : `-${spec.short}, `
  collect(spec.name, new Option(`${short}--${spec.name}${value}`, helpOf(spec)).helpGroup(GROUPS[spec.group]))
  for (const alias of spec.aliases ?? []) collect(spec.name, new Option(`--${alias}${value}`).hideHelp())
}

function argumentOf({ name, value, choices }: OptionSpec): string {
  if (name === 'log-date') return ' [FORMAT]' // the one whose value may be left out
  return ` <${choices === undefined ? (value ?? 'VALUE') : choices.join('|')}>`
}

function helpOf({ help, fallback, kind }: OptionSpec): string {
  const isWorthSaying = fallback !== undefined && fallback !== null && kind !== 'flag'
  return isWorthSaying ? `${help} (default: ${fallback})` : help
}

function usedUwsgiNames(argv: readonly string[]): string[] {
  const names = argv.flatMap(arg => {
    if (arg.startsWith('--')) return [arg.slice(2).split('=')[0] ?? '']
    return arg.startsWith('-') ? [UWSGI_LETTERS[arg[1] ?? ''] ?? ''] : []
  })
  const ours = new Set([...optionNames(), 'help', 'version'])
  return [...new Set(names)].filter(name => !ours.has(name) && uwsgiArity(name) !== undefined)
}

/** Completes unique abbreviations (`--spooler-proc 3`), as getopt_long does. */
export function completeAbbreviations(argv: readonly string[]): string[] {
  const names = [...optionNames(), 'help', 'version']
  return argv.map(arg => {
    const [, given, rest = ''] = /^--([a-z0-9][a-z0-9-]*)(=.*)?$/s.exec(arg) ?? []
    if (given === undefined || names.includes(given) || uwsgiArity(given) !== undefined) return arg
    const matches = names.filter(name => name.startsWith(given))
    return matches.length === 1 ? `--${matches[0]}${rest}` : arg
  })
}
