import { OPTION_TABLE, type OptionGroup, type OptionSpec } from '../config/option-table.js'

const PREAMBLE = `<!-- Written by \`npm run docs\` from src/config/option-table.ts. Change it there. -->

# Options

Every option that does something in spoold. \`spoold --help\` says the same; \`spoold check app.ini\` tells what a
configuration has wrong, with file and line.

An option can be written in three places, by the same name:

| where | how |
|---|---|
| ini file | \`spooler-frequency = 5\` in the section \`[uwsgi]\` |
| command line | \`--spooler-frequency 5\`, or a beginning of it that fits no other option |
| environment | \`SPOOLD_SPOOLER_FREQUENCY=5\`, or \`UWSGI_SPOOLER_FREQUENCY=5\` |

**When an option is given twice, the later one counts; a repeatable one adds up.** They are read in this order, which is
uWSGI's: the environment, then the command line from left to right (\`--ini FILE\` is read where it stands), then the files
that were named without \`--ini\`, then the files of \`inherit\`. So \`spoold app.ini --spooler-frequency 5\` leaves the last
word to \`app.ini\`, and \`spoold --ini app.ini --spooler-frequency 5\` does not.

**Values.** A flag is \`true\`, \`on\`, \`yes\`, \`1\` or nothing at all; or \`false\`, \`off\`, \`no\`, \`0\`. SECONDS may have a
fraction, or units: \`90s\`, \`10m\`, \`1h30m\`, with \`ms\`, \`s\`, \`m\`, \`h\`, \`d\`, \`w\`. A number that is none is an error, where uWSGI would quietly take 0. Relative paths start at the directory in
which spoold was started. With \`chdir\`, those of handlers, \`spooler-chdir\`, \`safe-pidfile\` and the \`touch-\` options
start there.

Options of uWSGI that are not listed here are accepted and have no effect; one warning names them. What uWSGI does not
know either gets a warning with the nearest name, or is an error under \`strict\`. Options marked **spoold** do not exist in
uWSGI.
`

/** docs/options.md, from the table. */
export function optionsPage(): string {
  const groups = new Set(OPTION_TABLE.map(({ group }) => group))
  return [PREAMBLE, ...[...groups].map(section)].join('\n')
}

function section(group: OptionGroup): string {
  const rows = OPTION_TABLE.filter((spec: OptionSpec) => spec.group === group).map(rowOf)
  return [
    `## ${group.charAt(0).toUpperCase()}${group.slice(1)}`,
    '',
    '| option | value | default | meaning |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}

function rowOf(spec: OptionSpec): string {
  return `| ${[namesOf(spec), shownValue(spec), shownDefault(spec), meaningOf(spec)].join(' | ')} |`
}

function namesOf({ name, aliases = [], short }: OptionSpec): string {
  const others = [...aliases, ...(short === undefined ? [] : [`-${short}`])]
  return [name, ...others].map(each => `\`${each}\``).join(', ')
}

function shownValue({ kind, choices, value, isList }: OptionSpec): string {
  if (kind === 'flag') return 'flag'
  const shown =
    choices === undefined ? `\`${value ?? 'VALUE'}\`` : choices.map(each => `\`${each}\``).join(', ')
  return isList ? `${shown}, repeatable` : shown
}

function shownDefault({ kind, fallback }: OptionSpec): string {
  if (kind === 'flag') return fallback === true ? 'on' : 'off'
  return fallback === undefined || fallback === null ? '' : `\`${fallback}\``
}

function meaningOf({ help, isOurs }: OptionSpec): string {
  const text = help.replaceAll('|', '\\|').replaceAll('*', '\\*')
  return isOurs ? `**spoold** ${text}` : text
}
