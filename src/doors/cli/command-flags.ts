import type { Command, Flag } from './command.js'

const FILTERS: readonly Flag[] = [
  [
    '--state <states>',
    'due, parked, waiting, retrying, held, running, incomplete, malformed, unreadable or dead; several are separated by commas',
  ],
  ['--older-than <time>', 'that arrived, or were buried, longer ago: 90m, 2h, 7d, today, or a date'],
  ['--newer-than <time>', 'that arrived, or were buried, more recently'],
  ['--priority <n>', 'of this priority'],
  ['--task <name>', 'tasks whose key task is this: named tasks'],
  ['--key <key=value>', 'whose packet has exactly this pair; may be repeated', 'repeatable'],
  [
    '--match <key=glob>',
    "that have a value like this, such as 'to=*@example.org'; may be repeated",
    'repeatable',
  ],
  ['--grep <text>', 'with this text in the name, a value or the last error; may be repeated', 'repeatable'],
  ['--name <glob>', "whose file name matches, such as 'uwsgi_spoolfile_on_web1_*'"],
  ['--reason <reason>', 'dead letters of this reason, such as crashes'],
]

export const INI: Flag = ['--ini <file>', 'the configuration that names the spools']
export const CONTROL: Flag = ['--control <path>', 'ask the daemon at this socket of spooler-control']
/** The flag of every command that acts in spools. */
export const AS: Flag = ['--as <user>', 'for root: act as this user, instead of as the owner of the spool']
export const AS_JSON_LINES: Flag = ['--json', 'one JSON object per line']

export const LISTING: readonly Flag[] = [
  ...FILTERS,
  INI,
  [
    '--sort <order>',
    'run, priority, name, age, due, attempts, bytes or none; the default is run: as they will start',
  ],
  ['--by-name', 'the same as --sort name: in the order of spooler-ordered = true'],
  ['--reverse', 'in the opposite order'],
  ['--limit <n>', 'list at most this many of each spool'],
  ['--show <keys>', 'a column for the values of these keys: --show to,kind', 'repeatable'],
  ['--vars', 'a column for all keys and values'],
  ['--by <keys>', 'count instead: by state, priority, reason or error, or by the value of a key'],
  AS_JSON_LINES,
]

export const LOGS: readonly Flag[] = [
  ['-f, --follow', 'go on with what is logged from now on'],
  ['--level <level>', 'only lines of this level or a worse one: info, warn or error'],
  INI,
  AS_JSON_LINES,
]

export const PURGE: readonly Flag[] = [
  INI,
  ['--max-age <time>', 'those that are older: 90m, 2h, 30d'],
  ['--max-count <n>', 'keep at most this many, removing the oldest'],
  ['--all', 'all of them'],
  ['--dry-run', 'only say how many'],
  ['--json', 'one JSON object per directory'],
]

export const SHAPE: readonly Flag[] = [
  INI,
  ['--by <key>', 'the key whose values are counted (default: ud_spool_func)'],
  ['--json', 'one JSON object per directory'],
]

export const SCHEDULES: readonly Flag[] = [
  INI,
  ['--run <schedule>', 'fire it now; its next regular time stays'],
  ['--pause <schedule>', 'stop firing it, also after restarts and reloads, until --resume'],
  ['--resume <schedule>', 'end its pause; missed runs are not made up for'],
  ['--remove <schedule>', 'remove it, if running code has added it'],
  AS_JSON_LINES,
]

export const UNITS: readonly Flag[] = [
  ['--hardened', 'restrict the service to what it needs'],
  ['--user', 'a unit for systemctl --user'],
  ['--path', 'the .path unit instead, which starts the service on the first task; needs die-on-idle'],
  ['--socket', 'the .socket unit instead, which hands over the sockets of the configuration'],
  ['--logrotate', 'a rule for logrotate instead, for the log file of the configuration'],
]

export const THRESHOLDS: readonly Flag[] = [
  ['--max-due <[warning,]critical>', 'more due tasks than this: 1000, or 500,1000'],
  ['--max-age <[warning,]critical>', 'the oldest due task has waited for longer: 10m, or 5m,10m'],
  ['--max-dead <[warning,]critical>', 'more dead letters'],
  ['--max-unreadable <[warning,]critical>', 'more tasks that cannot be read or begun'],
  ['--max-failure-rate <[warning,]critical>', 'a larger share of the runs of five minutes failed: 5%'],
]

export const SIMULATION: readonly Flag[] = [
  [
    '--load <file>',
    'the tasks: a CSV file, each line when one is due and how long it runs, in seconds; - for stdin',
  ],
  ['--from-log <file>', 'the tasks that ended in a JSON log of spoold; - for stdin'],
  ['--pattern <name>', 'made-up tasks: idle, ramp, burst, sawtooth or long'],
  ['--spool <spool>', 'the spool whose options count, and whose tasks of the log'],
  ['--algorithms <list>', 'these only: spare,latency,./mine.mjs; fixed is the maximum all the time'],
  ['--start-time <time>', 'how long a process takes to start: 2s (default: 400ms)'],
  ['--processors <count>', 'processors on which processes start (default: those of this machine)'],
  ['--set <option=value>', 'an option, whatever the configuration says; may be repeated', 'repeatable'],
  ['--json', 'one JSON object per algorithm, with every second'],
  ['--csv', 'one line per algorithm and second'],
]

/** Returns the row of a command that changes tasks. All of these select tasks with the same arguments and flags. */
export const change = (
  row: Pick<Command, 'name' | 'summary' | 'load'>,
  ...flags: readonly Flag[]
): Command => ({
  ...row,
  args: '[path...]',
  argsHelp:
    'tasks, as ls and enqueue name them, or SPOOL/ID; or spools, with filters or --all; with --ini, bare names and ids',
  flags: [
    ...FILTERS,
    INI,
    ['--all', 'all tasks of a spool that the command is for'],
    ['--dry-run', 'only say what would be done'],
    ['--quiet', 'print only what could not be done'],
    ['--json', 'one JSON object per task'],
    ...flags,
  ],
})

/** The flags of `enqueue`. */
export const NEW_TASKS: readonly Flag[] = [
  ['--spooler <spool>', 'the spool: a directory, or an address on Redis'],
  ['--ini <file>', 'the first spooler of this configuration'],
  ['--socket <address>', 'the socket of a daemon: host:3031, /path.sock or @abstract'],
  ['--json <file>', 'one JSON object, or one per line; - is standard input'],
  ['--at <time>', "run no earlier than: '2026-12-24 08:00', +5m, or epoch seconds"],
  ['--priority <n>', 'lower numbers run first; a directory needs spooler-ordered'],
  ['--body <file>', 'the body; - is standard input'],
  ['--id <text>', 'store it only once: the same id again changes nothing'],
  ['--quiet', 'print no path on success'],
]

/** The flags of `token`. */
export const NEW_TOKEN: readonly Flag[] = [
  ['--name <name>', 'whose it is, as the audit says', 'required'],
  ['--role <role>', 'viewer, operator or admin', 'required'],
  ['--payload', 'whoever holds it may also read the keys, values, bodies and errors of tasks'],
]
