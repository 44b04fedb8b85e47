import type { Command } from './command.js'
import {
  AS,
  AS_JSON_LINES,
  CONTROL,
  change,
  INI,
  LISTING,
  LOGS,
  NEW_TASKS,
  NEW_TOKEN,
  PURGE,
  SCHEDULES,
  SHAPE,
  SIMULATION,
  THRESHOLDS,
  UNITS,
} from './command-flags.js'

const SPOOLS = {
  args: '[dir...]',
  argsHelp: 'spool directories, or addresses on Redis; none: those of --ini',
} as const
const tasks = () => import('./commands/tasks.js')

// One row per command, so this table is long.
const ROWS: readonly Command[] = [
  {
    name: 'check',
    summary: 'print every error and warning of a configuration, with file:line; exit 1 if there is an error',
    args: '[files...]',
    argsHelp: 'as for running',
    flags: [],
    takesConfiguration: true,
    actsForNobody: true,
    load: async () => (await import('./commands/configuration.js')).check,
  },
  {
    name: 'config',
    summary: 'print the effective configuration as an ini file, with the origin of each value',
    args: '[files...]',
    argsHelp: 'as for running',
    flags: [
      ['--with-secrets', 'also what may be secret: then it is an equivalent ini file'],
      [
        '--as-json',
        'one JSON object: the spools, what handlers see as uwsgi.opt, and every value with its origin',
      ],
    ],
    takesConfiguration: true,
    actsForNobody: true,
    load: async () => (await import('./commands/configuration.js')).config,
  },
  {
    name: 'scaling',
    summary: 'simulate how each algorithm of spooler-cheaper-algo adapts the number of processes to a load',
    args: '<files...>',
    argsHelp: 'ini files, each as FILE or FILE:SECTION',
    flags: SIMULATION,
    actsForNobody: true,
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
    actsForNobody: true,
    load: async () => (await import('./commands/doctor.js')).doctor,
  },
  {
    name: 'unit',
    summary: 'print the systemd unit that runs a configuration',
    args: '<files...>',
    argsHelp: 'ini files, each as FILE or FILE:SECTION',
    flags: UNITS,
    actsForNobody: true,
    load: async () => (await import('./commands/unit.js')).unit,
  },
  {
    name: 'status',
    summary:
      'print the state of spools, as their daemons see it; exit 0, or with thresholds 1 warning, 2 critical, 3 unknown',
    ...SPOOLS,
    flags: [
      ['--ini <file>', 'the configuration of the daemon'],
      CONTROL,
      ...THRESHOLDS,
      ['--json', 'one JSON object'],
    ],
    load: async () => (await import('./commands/status.js')).status,
  },
  {
    name: 'top',
    summary: 'show spools on a whole screen, live: tabs, a filter, and keys that act on tasks; q leaves it',
    ...SPOOLS,
    flags: [INI, CONTROL],
    load: async () => (await import('./commands/top.js')).top,
  },
  {
    name: 'logs',
    summary:
      'print the latest log lines of the daemons of spools; with -f also new ones, until the daemons end',
    ...SPOOLS,
    flags: LOGS,
    load: async () => (await import('./commands/logs.js')).logs,
  },
  {
    name: 'shape',
    summary: 'count tasks by the value of a key and by age in minutes, as qshape does for mail',
    ...SPOOLS,
    flags: SHAPE,
    load: async () => (await import('./commands/shape.js')).shape,
  },
  {
    name: 'ls',
    summary: 'list the tasks of spools, the dead letters last',
    ...SPOOLS,
    flags: LISTING,
    load: async () => (await import('./commands/ls.js')).ls,
  },
  {
    name: 'show',
    summary:
      'show everything about a task or dead letter: its packet, its failures, and which process runs it',
    args: '[file...]',
    argsHelp: 'tasks, as ls names them, or SPOOL/ID; with --ini, bare names and ids',
    flags: [INI, ['--json', 'as JSON, bytes that are not UTF-8 as base64']],
    load: async () => (await import('./commands/show.js')).show,
  },
  {
    name: 'wait',
    summary:
      'wait until tasks have ended; exit 0 if all are done, 1 if one is dead, 4 if one is unknown, 124 if one has not ended in time',
    args: '[path...]',
    argsHelp:
      'tasks, as enqueue and ls name them, or a spool and an id: SPOOL/ID; with --ini, bare names and ids',
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
      summary: 'move tasks to another spool, in a directory or on Redis, with their time and their failures',
      load: async () => (await tasks()).move,
    },
    ['--to <spool>', 'the other spool: a directory, or an address on Redis', 'required'],
    ['--create', 'also into a directory that is missing, or holds files other than tasks'],
  ),
  {
    name: 'pause',
    summary: 'start no more tasks of a spool, or none with a pair, until resume; exit 1 if something goes on',
    args: '[dir...]',
    argsHelp:
      'spool directories, or addresses on Redis; every daemon on them obeys within a second; none: those of --ini',
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
    ...SPOOLS,
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
    argsHelp: 'spools, and then on (the default) or off; without spools: those of --ini',
    flags: [INI, ['--json', 'one JSON object per daemon']],
    load: async () => (await import('./commands/daemons.js')).quiet,
  },
  {
    name: 'scale',
    summary: 'set how many processes a spool has, until auto leaves it to its algorithm again',
    args: '<dir...>',
    argsHelp: 'spools, and then N, +N, -N or auto; without spools: those of --ini',
    flags: [INI, ['--json', 'one JSON object per daemon']],
    load: async () => (await import('./commands/daemons.js')).scale,
  },
  {
    name: 'schedules',
    summary:
      'list the schedules that the daemons of spools fire; or run, pause, resume or remove one of them',
    ...SPOOLS,
    flags: SCHEDULES,
    load: async () => (await import('./commands/schedules.js')).schedules,
  },
  {
    name: 'purge',
    summary: 'remove dead letters for good',
    ...SPOOLS,
    flags: PURGE,
    load: async () => (await import('./commands/purge.js')).purge,
  },
  {
    name: 'enqueue',
    summary:
      'store tasks and print their paths; exit 0 if stored, 75 if a retry may succeed, 64 if the request is wrong',
    args: '[key=value...]',
    argsHelp: 'the pairs; key=@file takes the bytes of a file',
    flags: NEW_TASKS,
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
    actsForNobody: true,
    load: async () => (await import('./commands/daemons.js')).signal,
  },
  {
    name: 'token',
    summary: 'add a token for the dashboard to the file of spooler-dashboard-tokens, and print it',
    args: '<file>',
    argsHelp: 'made with mode 0600 if it is missing; it has only the hashes of tokens',
    flags: NEW_TOKEN,
    load: async () => (await import('./commands/token.js')).token,
  },
  {
    name: 'python-library',
    summary: 'print the path of Python\'s library for pip: pip install "$(spoold python-library)"',
    args: '[extras...]',
    argsHelp: 'what pip installs beside it: flask, django, sentry, datadog',
    flags: [],
    actsForNobody: true,
    load: async () => (await import('./commands/python-library.js')).pythonLibrary,
  },
  {
    name: 'completion',
    summary: 'print a completion script for a shell, to be sourced or saved',
    args: '<shell>',
    argsHelp: 'bash, zsh or fish',
    flags: [],
    actsForNobody: true,
    load: async () => (await import('./commands/completion.js')).completionOf(COMMANDS),
  },
]

/** All commands. docs/commands.md describes each. */
export const COMMANDS: readonly Command[] = ROWS.map(row =>
  row.actsForNobody === true ? row : { ...row, flags: [...row.flags, AS] },
)
