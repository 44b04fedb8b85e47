import type { Command } from './command.js'
import { AS_JSON_LINES, change, FILTERS, INI, SIMULATION } from './command-flags.js'

// Longer than others: it has every command, and nothing else.

const tasks = () => import('./commands/tasks.js')

// Longer than others: one row per command.
/** docs/commands.md describes each. */
export const COMMANDS: readonly Command[] = [
  {
    name: 'check',
    summary: 'print every error and warning of a configuration, with file:line; exit 1 if there is an error',
    args: '[files...]',
    argsHelp: 'as for running',
    flags: [],
    takesConfiguration: true,
    load: async () => (await import('./commands/check.js')).check,
  },
  {
    name: 'config',
    summary: 'print the effective configuration as an ini file, with the origin of each value',
    args: '[files...]',
    argsHelp: 'as for running',
    flags: [],
    takesConfiguration: true,
    load: async () => (await import('./commands/config.js')).config,
  },
  {
    name: 'scaling',
    summary: 'simulate how each algorithm of spooler-cheaper-algo adapts the number of processes to a load',
    args: '<files...>',
    argsHelp: 'ini files, each as FILE or FILE:SECTION',
    flags: SIMULATION,
    load: async () => (await import('./commands/scaling.js')).scaling,
  },
  {
    name: 'fsck',
    summary: 'find damage in spool directories, and repair it on request; exit 1 if something is left',
    args: '[dir...]',
    argsHelp: 'spool directories; none: those of --ini',
    flags: [
      ['--repair', 'repair what is found; never removes a task that has not run'],
      ['--ini <file>', 'the configuration of the daemon'],
      AS_JSON_LINES,
    ],
    load: async () => (await import('./commands/fsck.js')).fsck,
  },
  {
    name: 'doctor',
    summary: 'examine a whole installation as the user that will run it; exit 1 if there is an error',
    args: '<files...>',
    argsHelp: 'ini files, each as FILE or FILE:SECTION',
    flags: [AS_JSON_LINES],
    load: async () => (await import('./commands/doctor.js')).doctor,
  },
  {
    name: 'unit',
    summary: 'print the systemd unit that runs a configuration',
    args: '<files...>',
    argsHelp: 'ini files, each as FILE or FILE:SECTION',
    flags: [
      ['--hardened', 'restrict the service to what it needs'],
      ['--user', 'a unit for systemctl --user'],
      ['--path', 'the .path unit instead, which starts the service on the first task; needs die-on-idle'],
      ['--socket', 'the .socket unit instead, which hands over the sockets of the configuration'],
      ['--logrotate', 'a rule for logrotate instead, for the log file of the configuration'],
    ],
    load: async () => (await import('./commands/unit.js')).unit,
  },
  {
    name: 'status',
    summary:
      'say how spools are, as their daemons see it; exit 0, or with thresholds 1 warning, 2 critical, 3 unknown',
    args: '[dir...]',
    argsHelp: 'spool directories; none: those of --ini',
    flags: [
      ['--ini <file>', 'the configuration of the daemon'],
      ['--control <path>', 'ask the daemon at this socket of spooler-control'],
      ['--max-due <[warning,]critical>', 'more due tasks than this: 1000, or 500,1000'],
      ['--max-age <[warning,]critical>', 'the oldest due task has waited for longer: 10m, or 5m,10m'],
      ['--max-dead <[warning,]critical>', 'more dead letters'],
      ['--max-failure-rate <[warning,]critical>', 'a larger share of the runs of five minutes failed: 5%'],
      ['--json', 'one JSON object'],
    ],
    load: async () => (await import('./commands/status.js')).status,
  },
  {
    name: 'logs',
    summary: 'print what the daemons of spools have logged of late; with -f also what comes, until they end',
    args: '[dir...]',
    argsHelp: 'spool directories; none: those of --ini',
    flags: [
      ['-f, --follow', 'go on with what is logged from now on'],
      ['--level <level>', 'only lines that are at least this bad: info, warn or error'],
      INI,
      AS_JSON_LINES,
    ],
    load: async () => (await import('./commands/logs.js')).logs,
  },
  {
    name: 'shape',
    summary: 'count tasks by the value of a key and by age in minutes, as qshape does for mail',
    args: '<dir...>',
    flags: [
      ['--by <key>', 'the key whose values are counted (default: ud_spool_func)'],
      ['--json', 'one JSON object per directory'],
    ],
    load: async () => (await import('./commands/shape.js')).shape,
  },
  {
    name: 'ls',
    summary: 'list the tasks of spool directories, the dead letters last',
    args: '[dir...]',
    argsHelp: 'spool directories; none: those of --ini',
    flags: [
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
    ],
    load: async () => (await import('./commands/ls.js')).ls,
  },
  {
    name: 'show',
    summary:
      'show everything about a task or dead letter: its packet, its failures, and which process runs it',
    args: '[file...]',
    argsHelp: 'files, as ls names them; with --ini, bare names',
    flags: [INI, ['--json', 'as JSON, bytes that are not UTF-8 as base64']],
    load: async () => (await import('./commands/show.js')).show,
  },
  {
    name: 'wait',
    summary:
      'wait until tasks have ended; exit 0 if all are done, 1 if one is dead, 124 if one has not ended in time',
    args: '[path...]',
    argsHelp:
      'files, as enqueue and ls name them, or a spool and an id: DIR/ID; with --ini, bare names and ids',
    flags: [
      INI,
      ['--timeout <time>', 'wait no longer than this: 30s, 10m, 1h'],
      ['--quiet', 'print only what is dead or has not ended'],
      ['--json', 'one JSON object per task'],
    ],
    load: async () => (await import('./commands/wait.js')).wait,
  },
  change({
    name: 'rm',
    summary: 'remove tasks, or dead letters with --state dead',
    load: async () => (await tasks()).rm,
  }),
  change({
    name: 'cancel',
    summary: 'end running tasks, and bury them, as those that wait, with the reason `cancelled`',
    load: async () => (await tasks()).cancel,
  }),
  change(
    {
      name: 'requeue',
      summary: 'put dead letters back into their spool, due at once',
      load: async () => (await tasks()).requeue,
    },
    ['--keep-attempts', 'keep the number of attempts instead of restarting at 0'],
  ),
  change({
    name: 'kick',
    summary: 'run tasks now, whatever they wait for',
    load: async () => (await tasks()).kick,
  }),
  change({
    name: 'hold',
    summary: 'keep tasks from running, in a plain uWSGI too',
    load: async () => (await tasks()).hold,
  }),
  change({
    name: 'release',
    summary: 'end a hold, and restore the original run time',
    load: async () => (await tasks()).release,
  }),
  change(
    {
      name: 'move',
      summary: 'move tasks to another spool, with their time and their failures',
      load: async () => (await tasks()).move,
    },
    ['--to <dir>', 'the other spool', 'required'],
  ),
  {
    name: 'pause',
    summary: 'start no more tasks of a spool, or none with a pair, until resume; exit 1 if something goes on',
    args: '[dir...]',
    argsHelp: 'spool directories; every daemon on them obeys within a second; none: those of --ini',
    flags: [
      INI,
      ['--key <key=value>', 'only tasks whose packet has this pair', 'repeatable'],
      ['--until <time>', "end by itself: '2026-12-24 08:00', +90m, or epoch seconds"],
      ['--json', 'one JSON object per directory'],
    ],
    load: async () => (await import('./commands/pause.js')).pause,
  },
  {
    name: 'resume',
    summary: 'end the pause of a spool, or of the tasks with a pair',
    args: '[dir...]',
    argsHelp: 'spool directories; none: those of --ini',
    flags: [
      INI,
      ['--key <key=value>', 'end the pause of these tasks', 'repeatable'],
      ['--all', 'end every pause of the spool'],
      ['--json', 'one JSON object per directory'],
    ],
    load: async () => (await import('./commands/pause.js')).resume,
  },
  {
    name: 'quiet',
    summary: 'let the daemons of spools start nothing more, as SIGTSTP does; off lets them go on',
    args: '[dir...]',
    argsHelp: 'spool directories, and then on (the default) or off; without directories: those of --ini',
    flags: [INI, ['--json', 'one JSON object per daemon']],
    load: async () => (await import('./commands/quiet.js')).quiet,
  },
  {
    name: 'scale',
    summary: 'set how many processes a spool has, until auto leaves it to its algorithm again',
    args: '<dir...>',
    argsHelp: 'spool directories, and then N, +N, -N or auto; without directories: those of --ini',
    flags: [INI, ['--json', 'one JSON object per daemon']],
    load: async () => (await import('./commands/scale.js')).scale,
  },
  {
    name: 'purge',
    summary: 'remove dead letters for good',
    args: '[dir...]',
    argsHelp: 'spool directories; none: those of --ini',
    flags: [
      INI,
      ['--max-age <time>', 'those that are older: 90m, 2h, 30d'],
      ['--max-count <n>', 'keep at most this many, removing the oldest'],
      ['--all', 'all of them'],
      ['--dry-run', 'only say how many'],
      ['--json', 'one JSON object per directory'],
    ],
    load: async () => (await import('./commands/purge.js')).purge,
  },
  {
    name: 'enqueue',
    summary:
      'store tasks and print their paths; exit 0 if stored, 75 if a retry may succeed, 64 if the request is wrong',
    args: '[key=value...]',
    argsHelp: 'the pairs; key=@file takes the bytes of a file',
    flags: [
      ['--spooler <dir>', 'the spool directory'],
      ['--ini <file>', 'the first spooler of this configuration'],
      ['--socket <address>', 'the socket of a daemon: host:3031, /path.sock or @abstract'],
      ['--json <file>', 'one JSON object, or one per line; - is standard input'],
      ['--at <time>', "run no earlier than: '2026-12-24 08:00', +5m, or epoch seconds"],
      ['--priority <n>', 'the priority directory; needs spooler-ordered'],
      ['--body <file>', 'the body; - is standard input'],
      ['--id <text>', 'store it only once: the same id again changes nothing'],
      ['--quiet', 'print nothing on success'],
    ],
    load: async () => (await import('./commands/enqueue.js')).enqueue,
  },
  {
    name: 'signal',
    summary:
      'raise a signal in a daemon; exit 0 if accepted, 75 if a retry may succeed, 64 if the request is wrong',
    args: '<number>',
    argsHelp: '0 to 255',
    flags: [
      ['--socket <address>', 'the socket of the daemon: host:3031, /path.sock or @abstract'],
      ['--ini <file>', 'the first socket of this configuration'],
    ],
    load: async () => (await import('./commands/signal.js')).signal,
  },
  {
    name: 'completion',
    summary: 'print a completion script for a shell, to be sourced or saved',
    args: '<shell>',
    argsHelp: 'bash, zsh or fish',
    flags: [],
    load: async () => (await import('./commands/completion.js')).completionOf(COMMANDS),
  },
]
