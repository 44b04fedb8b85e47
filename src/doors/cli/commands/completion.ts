import { SpooldError } from '../../../base/errors.js'
import { LEVELS as LOG_LEVELS } from '../../../base/log/log.js'
import { SORTS } from '../../../engines/spool/admin/listing.js'
import { TASK_STATES } from '../../../engines/spool/admin/task-view.js'
import { OPTION_TABLE, type OptionSpec } from '../../../formats/config/option-table.js'
import type { Command } from '../command.js'
import type { CommandContext } from '../context.js'
import { GROUP_FACTS } from '../task-groups.js'

/** What completes an argument or the value of a flag. */
type Completer =
  | { readonly kind: 'files' | 'directories' | 'nothing' }
  | { readonly words: readonly string[] }

interface CompletedFlag {
  /** The name of the flag, with its dashes. */
  readonly name: string
  readonly help: string
  /** undefined if the flag has no value. */
  readonly value?: Completer
}

interface CompletedCommand {
  /** '' for the daemon. */
  readonly name: string
  readonly help: string
  readonly flags: readonly CompletedFlag[]
  readonly args: Completer
}

const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

/** The values of flags that take one of a few words. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  '--state': TASK_STATES,
  '--sort': SORTS,
  '--by': GROUP_FACTS,
  '--level': LOG_LEVELS,
  shell: SHELLS,
}

/** `spoold completion SHELL`: prints a completion script for these commands. */
export function completionOf(commands: readonly Command[]) {
  return ([name = '']: readonly string[], _options: object, { output }: CommandContext): number => {
    output.purpose = 'look'
    const shell = SHELLS.find(each => each === name)
    if (shell === undefined)
      throw new SpooldError('USAGE', `expected one of ${SHELLS.join(', ')}, got ${JSON.stringify(name)}`)
    output.page(completionFor(shell, commands))
    return 0
  }
}

/** Returns a completion script, generated from the table of commands, so that it knows what `--help` knows. */
function completionFor(shell: Shell, table: readonly Command[]): string {
  const configuration = OPTION_TABLE.map(optionFlag)
  const names = { words: table.map(({ name }) => name) }
  const help = { name: 'help', help: 'display help for a command', flags: [], args: names }
  const commands = [...table.map(command => completed(command, configuration)), help]
  const daemon = { name: '', help: '', flags: configuration, args: { kind: 'files' } } as const
  return { bash, zsh, fish }[shell](daemon, commands)
}

function completed(
  { name, summary, args, flags, takesConfiguration }: Command,
  configuration: readonly CompletedFlag[],
): CompletedCommand {
  const own = flags.map(([names, help]) => {
    const [, flag = '', value] = /(--[\w-]+)(?: <(.*)>)?$/.exec(names) ?? []
    return { name: flag, help, ...(value === undefined ? {} : { value: completer(flag, value) }) }
  })
  return {
    name,
    help: summary,
    flags: takesConfiguration === true ? [...own, ...configuration] : own,
    args: completer('', args.replace(/^[<[](.*?)(?:\.\.\.)?[\]>]$/, '$1')),
  }
}

function optionFlag({ name, kind, value = '', choices, help }: OptionSpec): CompletedFlag {
  const words = choices === undefined || kind === 'flag' ? undefined : { words: choices }
  const isFlag = kind === 'flag' && value === ''
  return {
    name: `--${name}`,
    help,
    ...(isFlag ? {} : { value: words ?? completer('', value.toLowerCase()) }),
  }
}

/** @param placeholder `dir`, `file`, … */
function completer(flag: string, placeholder: string): Completer {
  const words = WORDS[flag] ?? WORDS[placeholder]
  if (words !== undefined) return { words }
  if (placeholder === 'dir') return { kind: 'directories' }
  return { kind: /^(?:files?|paths?)$/.test(placeholder) ? 'files' : 'nothing' }
}

function bash(daemon: CompletedCommand, commands: readonly CompletedCommand[]): string {
  const reply = (value: Completer) => {
    if ('words' in value) return `_spoold_words '${value.words.join(' ')}'`
    return { files: '_spoold_files -f', directories: '_spoold_files -d', nothing: ':' }[value.kind]
  }
  const values = (command: CompletedCommand) =>
    command.flags.flatMap(({ name, value }) =>
      value === undefined ? [] : [`    '${command.name} ${name}') ${reply(value)}; return ;;`],
    )
  const args = (command: CompletedCommand) =>
    `    '${command.name}') if [[ $cur == -* ]]; then _spoold_words '${command.flags.map(({ name }) => name).join(' ')} --help'; else ${reply(command.args)}; fi ;;`
  const names = commands.map(({ name }) => name)
  return `# bash completion for spoold: eval "$(spoold completion bash)", or save it to
# ~/.local/share/bash-completion/completions/spoold
_spoold_words() { COMPREPLY=($(compgen -W "$1" -- "$cur")); }
_spoold_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}
_spoold() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]} command=
  COMPREPLY=()
  if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then
    _spoold_files -f
    COMPREPLY+=($(compgen -W '${names.join(' ')}' -- "$cur"))
    return
  fi
  case \${COMP_WORDS[1]} in
    ${names.join('|')}) command=\${COMP_WORDS[1]} ;;
  esac
  case "$command $prev" in
${[daemon, ...commands].flatMap(values).join('\n')}
  esac
  case $command in
${[daemon, ...commands].map(args).join('\n')}
  esac
}
complete -F _spoold spoold
`
}

function zsh(daemon: CompletedCommand, commands: readonly CompletedCommand[]): string {
  const action = (value: Completer) => {
    if ('words' in value) return `(${value.words.join(' ')})`
    return { files: '_files', directories: '_files -/', nothing: ' ' }[value.kind]
  }
  const escaped = (text: string) => quoted(text.replace(/[[\]:\\]/g, '\\$&'))
  const flag = ({ name, help, value }: CompletedFlag) =>
    `'*${name}[${escaped(help)}]${value === undefined ? '' : `:value:${action(value)}`}'`
  const call = ({ flags, args }: CompletedCommand) =>
    ['_arguments', ...flags.map(flag), `'*:argument:${action(args)}'`].join(' \\\n        ')
  return `#compdef spoold
# zsh completion for spoold: source <(spoold completion zsh), or save it as _spoold in a directory of $fpath
_spoold() {
  local -a commands
  commands=(
${commands.map(({ name, help }) => `    '${name}:${escaped(help)}'`).join('\n')}
  )
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe command commands
    _files
    return
  fi
  case $words[2] in
${commands.map(command => `    ${command.name})\n      shift words\n      (( CURRENT-- ))\n      ${call(command)} ;;`).join('\n')}
    *)
      ${call(daemon)} ;;
  esac
}
if [[ $funcstack[1] == _spoold ]]; then _spoold "$@"; else compdef _spoold spoold; fi
`
}

function fish(daemon: CompletedCommand, commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name }) => name).join(' ')
  const value = (completed: Completer | undefined) => {
    if (completed === undefined) return ''
    if ('words' in completed) return ` -x -a '${completed.words.join(' ')}'`
    return { files: ' -r -F', directories: " -x -a '(__fish_complete_directories)'", nothing: ' -x' }[
      completed.kind
    ]
  }
  const linesOf = ({ name, flags, args }: CompletedCommand) => {
    const when =
      name === '' ? `not __fish_seen_subcommand_from ${names}` : `__fish_seen_subcommand_from ${name}`
    const rows = flags.map(
      flag =>
        `complete -c spoold -n '${when}' -l ${flag.name.slice(2)}${value(flag.value)} -d '${quotedForFish(flag.help)}'`,
    )
    const isPlain = 'kind' in args && args.kind === 'files'
    return isPlain ? rows : [...rows, `complete -c spoold -n '${when}'${value(args).replace(' -x', ' -f')}`]
  }
  return [
    '# fish completion for spoold: spoold completion fish | source, or save it to',
    '# ~/.config/fish/completions/spoold.fish',
    ...commands.map(
      ({ name, help }) =>
        `complete -c spoold -n __fish_use_subcommand -a ${name} -d '${quotedForFish(help)}'`,
    ),
    ...[daemon, ...commands].flatMap(linesOf),
    '',
  ].join('\n')
}

/** Escapes a text for single quotes of a POSIX shell. */
function quoted(text: string): string {
  return text.replaceAll("'", "'\\''")
}

function quotedForFish(text: string): string {
  return text.replace(/['\\]/g, '\\$&')
}
