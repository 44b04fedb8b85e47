// The manual page spoold(1), from the tables of commands and options.
import { readFileSync } from 'node:fs'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

/** Escapes text for groff: a leading dot or quote would be a request, and a dash is a minus that can be copied. */
const escaped = text =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('…', '...')
    .replaceAll('≥', '>=')
    .replace(/^([.'])/gm, '\\&$1')
const bold = text => `\\fB${escaped(text)}\\fR`
/** A term with what stands behind it in italics: `--spooler <DIR>`. */
const term = text =>
  text
    .split(/(<[^>]*>|\[[^\]]*\])/)
    .map((part, i) => (i % 2 === 1 ? `\\fI${escaped(part.replace(/^[<[]|[>\]]$/g, ''))}\\fR` : bold(part)))
    .join('')
    .replace('\\fB\\fR', '')
const item = (name, text) => `.TP\n${term(name)}\n${escaped(text)}`

/** @returns the page's source */
export function manualPage(commands, options) {
  const groups = [...new Set(options.map(({ group }) => group))]
  return `.\\" Written by "npm run docs" from src/doors/cli/command-table.ts and src/formats/config/option-table.ts. Change it there.
.TH SPOOLD 1 "" "spoold ${version}" "User Commands"
.SH NAME
spoold \\- a drop\\-in uWSGI spooler: runs background tasks from plain files
.SH SYNOPSIS
.B spoold
[\\fIapp.ini\\fR] [\\fB\\-\\-option\\fR \\fIvalue\\fR]...
.br
.B spoold
\\fIcommand\\fR [\\fIarguments\\fR]
.SH DESCRIPTION
Without a command,
.B spoold
runs the daemon: it watches the spool directories of its configuration, and calls a handler for each task in them. Every
option is a flag, a key of the ini file, and an environment variable
.RB ( SPOOLD_SPOOLER_FREQUENCY ).
.PP
The commands show what is in a spool, and change it, with or without a running daemon.
.SH COMMANDS
${commands.map(commandSection).join('\n')}
.SH OPTIONS
${groups.map(group => optionGroup(group, options)).join('\n')}
.SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
stop gracefully: running tasks may end; a second one stops at once
.TP
.B SIGQUIT
stop at once
.TP
.B SIGHUP
reload the configuration, and replace the workers one by one
.TP
.B SIGUSR1
look for tasks now
.SH EXIT STATUS
.TP
.B 0
all of it was done
.TP
.B 1
the configuration is wrong, the daemon could not start, or a command could not do all of it
.TP
.B 3
.B \\-\\-drain
has ended, and not all tasks ran to SPOOL_OK
.TP
.B 64
the command line is wrong
.TP
.B 74
all of it was done, but the output could not be written in full
.TP
.B 75
.BR enqueue " and " signal :
a retry may succeed
.SH ENVIRONMENT
.TP
.B NO_COLOR
no colors in a terminal
.TP
.B FORCE_COLOR
colors in a pipe, too
.TP
.B COLUMNS
the width of the terminal
.SH FILES
.TP
.IB spool /.spoold
what spoold keeps about the tasks of a spool: records of failures, dead letters, ids
.SH SEE ALSO
The documentation that is installed beside the program, in
.IR docs/ ,
begins with
.IR README.md .
`
}

function commandSection({ name, summary, args, argsHelp, flags }) {
  const shown = args.replace(/[a-z=]+/g, word => `\\fI${escaped(word)}\\fR`)
  return [
    '.SS',
    `spoold ${escaped(name)}`,
    `\\fBspoold ${escaped(name)}\\fR ${flags.length > 0 ? '[\\fIoptions\\fR] ' : ''}${shown}`,
    '.PP',
    escaped(sentence(summary)),
    ...(argsHelp === undefined ? [] : [`The arguments: ${escaped(argsHelp)}.`]),
    ...flags.map(([names, help]) => item(names, help)),
  ].join('\n')
}

function optionGroup(group, options) {
  const rows = options.filter(option => option.group === group)
  return [`.SS ${group.charAt(0).toUpperCase()}${group.slice(1)}`, ...rows.map(optionItem)].join('\n')
}

function optionItem({ name, short, kind, choices, value, fallback, help }) {
  const words = kind === 'flag' ? value : (choices?.join('|') ?? value ?? 'VALUE')
  const names = `${short === undefined ? '' : `-${short}, `}--${name}${words === undefined ? '' : ` <${words}>`}`
  const hasDefault = fallback !== undefined && fallback !== null && kind !== 'flag'
  return item(names, hasDefault ? `${help} (default: ${fallback})` : help)
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
}
