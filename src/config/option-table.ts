/**
 * Every option, once: the source of ini keys, command-line flags, environment names, `--help`, docs/options.md and the
 * type `Options`. People speak seconds here; behind `coerce` everything is milliseconds.
 */
export interface OptionSpec {
  readonly name: string
  readonly aliases?: readonly string[]
  readonly short?: string
  readonly kind: OptionKind
  /** May be given several times; the values add up. Otherwise the last one counts. */
  readonly isList?: true
  readonly choices?: readonly string[]
  /** What `--help` shows for the value. A flag with one takes a value on the command line: it is on by default. */
  readonly value?: string
  /** In the option's own unit; null: unset. Lists start empty. */
  readonly fallback?: boolean | number | string | null
  readonly group: OptionGroup
  readonly help: string
  /** uWSGI has no such option. */
  readonly isOurs?: true
}

/** `octal`: a file mode. `directive`: steers the reading of the configuration and has no value afterwards. */
export type OptionKind = 'flag' | 'count' | 'seconds' | 'text' | 'octal' | 'choice' | 'directive'
export type OptionGroup =
  | 'spools'
  | 'failures'
  | 'workers'
  | 'handlers'
  | 'applications'
  | 'schedules'
  | 'network'
  | 'service'
  | 'log'
  | 'configuration'

// biome-ignore format: one option a line reads as the table it is
export const OPTION_TABLE = [
  { name: 'spooler', short: 'Q', kind: 'text', isList: true, value: 'DIR', group: 'spools', help: 'run the tasks of this directory; the same one twice means twice the processes' },
  { name: 'spooler-external', kind: 'text', isList: true, value: 'DIR', group: 'spools', help: 'tasks may be put into this directory, but somebody else runs them' },
  { name: 'spooler-ordered', kind: 'flag', fallback: false, group: 'spools', help: 'run by name, numbers inside names as numbers, and enter priority directories (1, 2, …)' },
  { name: 'spooler-frequency', aliases: ['spooler-freq'], kind: 'seconds', value: 'SECONDS', fallback: 30, group: 'spools', help: 'look at the directory at least so often, and run a retried task after so long' },
  { name: 'spooler-strict-names', kind: 'flag', fallback: false, group: 'spools', isOurs: true, help: 'run only the names that uWSGI runs: uwsgi_spoolfile_on_*, and numbers when ordered' },
  { name: 'spooler-lock', kind: 'choice', choices: ['auto', 'ofd', 'lockfile'], fallback: 'auto', group: 'spools', isOurs: true, help: 'how a task is claimed: record locks, which uWSGI respects, or lease files where those do not work; auto probes' },
  { name: 'spooler-watch', kind: 'choice', choices: ['auto', 'poll', 'off'], fallback: 'auto', group: 'spools', isOurs: true, help: 'how new files are noticed before the next look: file-system events, polling once a second, or not at all' },
  { name: 'spooler-sync', kind: 'flag', value: 'on|off', fallback: true, group: 'spools', isOurs: true, help: "a task that spoold stores is on disk before it counts as stored; off is uWSGI's behaviour" },
  { name: 'spooler-sweep', kind: 'seconds', value: 'SECONDS', fallback: 3600, group: 'spools', isOurs: true, help: 'remove what a writer that died left behind, after so long; 0 never' },
  { name: 'spooler-id-ttl', kind: 'seconds', value: 'SECONDS', fallback: 604800, group: 'spools', isOurs: true, help: 'remember the id of a task for so long, so that it is stored only once; 0 for ever' },

  { name: 'spooler-max-attempts', kind: 'count', value: 'N', fallback: 0, group: 'failures', isOurs: true, help: 'bury a task that failed so often; 0 never' },
  { name: 'spooler-max-crashes', kind: 'count', value: 'N', fallback: 3, group: 'failures', isOurs: true, help: 'bury a task that took its process with it so often; 0 never' },
  { name: 'spooler-backoff', kind: 'choice', choices: ['none', 'fixed', 'exponential'], fallback: 'fixed', group: 'failures', isOurs: true, help: 'how long a task that failed waits: not at all, always as long, or each time twice as long, with a random part' },
  { name: 'spooler-retry-delay', kind: 'seconds', value: 'SECONDS', fallback: null, group: 'failures', isOurs: true, help: 'wait so long, or begin with so long (default: spooler-frequency; exponential: 3)' },
  { name: 'spooler-backoff-cap', kind: 'seconds', value: 'SECONDS', fallback: 1200, group: 'failures', isOurs: true, help: 'the longest wait of spooler-backoff = exponential' },
  { name: 'spooler-delivery', kind: 'choice', choices: ['at-least-once', 'at-most-once'], fallback: 'at-least-once', group: 'failures', isOurs: true, help: 'when a process dies in the middle of a task: run it again, or bury it because nobody knows how far it came' },
  { name: 'spooler-grace', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'failures', isOurs: true, help: 'bury a malformed or unfinished spool file that nobody holds or changes for so long' },
  { name: 'spooler-dead-max-age', kind: 'seconds', value: 'SECONDS', fallback: 0, group: 'failures', isOurs: true, help: 'remove dead letters that are older; 0 never' },
  { name: 'spooler-dead-max-count', kind: 'count', value: 'N', fallback: 0, group: 'failures', isOurs: true, help: 'remove the oldest dead letters beyond so many; 0 never' },

  { name: 'spooler-processes', kind: 'count', value: 'N', fallback: 1, group: 'workers', help: 'worker processes for each spooler' },
  { name: 'spooler-concurrency', kind: 'count', value: 'N', fallback: 1, group: 'workers', isOurs: true, help: 'tasks in flight in each worker; above 1 the handlers must be asynchronous to gain from it' },
  { name: 'spooler-max-tasks', kind: 'count', value: 'N', fallback: 0, group: 'workers', help: 'replace a worker after so many tasks; 0 never' },
  { name: 'spooler-signal-as-task', kind: 'flag', fallback: false, group: 'workers', help: 'the run of a signal counts as a task for spooler-max-tasks' },
  { name: 'spooler-harakiri', kind: 'seconds', value: 'SECONDS', fallback: 0, group: 'workers', help: 'kill a worker whose task runs longer; 0 never' },
  { name: 'spooler-start-timeout', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'workers', isOurs: true, help: 'give a worker up that takes longer to load its handlers; 0 never' },
  { name: 'spooler-chdir', kind: 'text', value: 'DIR', fallback: null, group: 'workers', help: 'enter this directory before each task (default: the one that holds the task)' },
  { name: 'spooler-cheap', kind: 'flag', fallback: false, group: 'workers', help: 'keep no worker process while there is nothing to run' },
  { name: 'worker-reload-mercy', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'workers', help: 'at a stop or reload a running task may go on for so long before it is killed' },
  { name: 'touch-spoolers-reload', kind: 'text', isList: true, value: 'FILE', group: 'workers', help: 'replace the workers when this file is touched' },
  { name: 'touch-reload', kind: 'text', isList: true, value: 'FILE', group: 'workers', help: 'read the configuration again and replace the workers when this file is touched' },

  { name: 'spooler-import', kind: 'text', isList: true, value: 'FILE', group: 'handlers', help: 'load a handler: a JavaScript module (its default export, or the one named spooler), Python (.py, or the name of a module), Perl (.pl) or Ruby (.rb)' },
  { name: 'spooler-python-import', aliases: ['spooler-pyimport', 'spooler-py-import'], kind: 'text', isList: true, value: 'MODULE', group: 'handlers', help: 'import this Python module, or file, which sets uwsgi.spooler' },
  { name: 'import', aliases: ['pyimport', 'py-import', 'python-import'], kind: 'text', isList: true, value: 'MODULE', group: 'handlers', help: 'import this Python module, or file, before those of spooler-python-import' },
  { name: 'shared-import', aliases: ['shared-pyimport', 'shared-py-import', 'shared-python-import'], kind: 'text', isList: true, value: 'MODULE', group: 'handlers', help: 'import this Python module, or file, first' },
  { name: 'python', kind: 'text', value: 'PROGRAM', fallback: null, group: 'handlers', help: 'the Python interpreter (default: that of virtualenv, or python3 on PATH)' },
  { name: 'virtualenv', aliases: ['home', 'venv', 'pyhome'], short: 'H', kind: 'text', value: 'DIR', fallback: null, group: 'handlers', help: 'run Python in this virtual environment' },
  { name: 'pythonpath', aliases: ['python-path', 'pp'], kind: 'text', isList: true, value: 'DIR', group: 'handlers', help: 'let Python find modules here too; * and ? as in a shell' },
  { name: 'sharedarea', short: 'A', kind: 'text', isList: true, value: 'PAGES', group: 'handlers', help: 'memory of so many pages of 4 KiB (or size=BYTES) that all workers share, for uwsgi.sharedarea_read and its kin' },
  { name: 'perl-exec', kind: 'text', isList: true, value: 'FILE', group: 'handlers', help: 'run this Perl file, which calls uwsgi::spooler' },
  { name: 'perl-exec-post-fork', kind: 'text', isList: true, value: 'FILE', group: 'handlers', help: 'run this Perl file after those of perl-exec' },
  { name: 'perl', kind: 'text', value: 'PROGRAM', fallback: null, group: 'handlers', help: 'the Perl interpreter (default: perl on PATH)' },
  { name: 'shared-rbrequire', aliases: ['shared-rb-require', 'shared-ruby-require', 'shared-rubyrequire', 'shared-require'], kind: 'text', isList: true, value: 'FILE', group: 'handlers', help: 'require this Ruby file, or name on the search path, which defines UWSGI.spooler' },
  { name: 'rbrequire', aliases: ['rb-require', 'ruby-require', 'rubyrequire', 'require'], kind: 'text', isList: true, value: 'FILE', group: 'handlers', help: 'require this Ruby file, or name on the search path, after those of shared-rbrequire' },
  { name: 'rb-lib', aliases: ['ruby-lib'], kind: 'text', isList: true, value: 'DIR', group: 'handlers', help: 'let Ruby find files here too' },
  { name: 'ruby', kind: 'text', value: 'PROGRAM', fallback: null, group: 'handlers', help: 'the Ruby interpreter (default: ruby on PATH)' },
  { name: 'spooler-exec', kind: 'text', isList: true, value: 'COMMAND', group: 'handlers', isOurs: true, help: 'run this shell command for each task: the packet on standard input, the body on descriptor 3, the exit code decides' },
  { name: 'spooler-exec-input', kind: 'choice', choices: ['json', 'packet'], fallback: 'json', group: 'handlers', isOurs: true, help: 'what spooler-exec reads: a JSON object, or the packet as it is in the file' },

  { name: 'module', aliases: ['wsgi'], short: 'w', kind: 'text', value: 'MODULE[:CALLABLE]', fallback: null, group: 'applications', help: 'load this Python web application for the handlers that it registers; it is not served' },
  { name: 'wsgi-file', aliases: ['file'], kind: 'text', value: 'FILE', fallback: null, group: 'applications', help: 'the same for a Python file' },
  { name: 'eval', kind: 'text', value: 'CODE', fallback: null, group: 'applications', help: 'the same for Python code' },
  { name: 'pecan', kind: 'text', value: 'FILE', fallback: null, group: 'applications', help: 'the same for a Pecan configuration' },
  { name: 'paste', kind: 'text', value: 'URI', fallback: null, group: 'applications', help: 'the same for a Paste application, such as config:/etc/app.ini' },
  { name: 'ini-paste', aliases: ['ini-paste-logged'], kind: 'text', value: 'FILE', fallback: null, group: 'applications', help: 'read this file as ini does, and load the Paste application in it' },
  { name: 'web3', kind: 'text', value: 'MODULE[:CALLABLE]', fallback: null, group: 'applications', help: 'the same as module' },
  { name: 'pump', kind: 'text', value: 'MODULE[:CALLABLE]', fallback: null, group: 'applications', help: 'the same as module' },
  { name: 'wsgi-lite', kind: 'text', value: 'MODULE[:CALLABLE]', fallback: null, group: 'applications', help: 'the same as module' },
  { name: 'callable', kind: 'text', value: 'NAME', fallback: null, group: 'applications', help: 'the application in module or wsgi-file; with () behind its name it is called' },
  { name: 'pyargv', kind: 'text', value: 'ARGUMENTS', fallback: null, group: 'applications', help: 'what Python finds in sys.argv, divided by blanks' },
  { name: 'psgi', kind: 'text', value: 'FILE', fallback: null, group: 'applications', help: 'load this Perl web application for the handlers that it registers; it is not served' },
  { name: 'rack', kind: 'text', value: 'FILE', fallback: null, group: 'applications', help: 'load this Ruby web application for the handlers that it registers; it is not served' },
  { name: 'rails', kind: 'text', value: 'DIR', fallback: null, group: 'applications', help: 'the same for a Rails application' },
  { name: 'mount', kind: 'text', isList: true, value: '[MOUNTPOINT=]APP', group: 'applications', help: 'load this web application too: FILE.py, FILE.wsgi, MODULE:CALLABLE, FILE.ini (Paste), FILE.psgi, FILE.pl or FILE.ru' },
  { name: 'need-app', kind: 'flag', fallback: false, group: 'applications', help: 'a web application that cannot be loaded keeps the daemon from starting, also when there are other handlers' },
  { name: 'lazy-apps', aliases: ['lazy'], kind: 'flag', fallback: false, group: 'applications', help: 'load no web application, as in uWSGI, unless nothing else has handlers' },
  { name: 'spooler-load-app', kind: 'flag', value: 'on|off', fallback: true, group: 'applications', isOurs: true, help: 'off loads no web application' },

  { name: 'timer', aliases: ['signal-timer'], kind: 'text', isList: true, value: 'SIGNAL SECONDS', group: 'schedules', help: 'raise this signal every so many seconds' },
  { name: 'rbtimer', aliases: ['signal-rbtimer'], kind: 'text', isList: true, value: 'SIGNAL SECONDS', group: 'schedules', help: 'the same: in uWSGI another kind of timer' },
  { name: 'signal-cron', kind: 'text', isList: true, value: 'SIGNAL [TZ=ZONE] CRON', group: 'schedules', isOurs: true, help: 'raise this signal by the calendar, such as 17 TZ=Europe/Berlin 30 3 * * mon-fri' },
  { name: 'fs-signal', kind: 'text', isList: true, value: 'FILE SIGNAL', group: 'schedules', help: 'raise this signal when anything happens to the file, or in the directory' },
  { name: 'touch-signal', kind: 'text', isList: true, value: 'FILE SIGNAL', group: 'schedules', help: 'raise this signal when the file is touched' },
  { name: 'cron', kind: 'text', isList: true, value: '[TZ=ZONE] CRON COMMAND', group: 'schedules', help: "run this command by the calendar: minute, hour, day, month, weekday, in uWSGI's numbers (-1 any, -5 every fifth) or as cron has them" },
  { name: 'unique-cron', kind: 'text', isList: true, value: '[TZ=ZONE] CRON COMMAND', group: 'schedules', help: 'the same, but not while its last run goes on' },
  { name: 'cron2', kind: 'text', isList: true, value: 'KEY=VALUE,… COMMAND', group: 'schedules', help: 'the same with the keys minute, hour, day, month, week, unique, harakiri and zone' },
  { name: 'cron-harakiri', kind: 'seconds', value: 'SECONDS', fallback: 0, group: 'schedules', help: 'kill a command of cron that runs longer; 0 never' },

  { name: 'socket', aliases: ['uwsgi-socket'], short: 's', kind: 'text', isList: true, value: 'ADDRESS', group: 'network', help: 'take tasks from the network, in uWSGI packets: host:port, :port, /path/to/socket or @abstract' },
  { name: 'socket-allow', kind: 'text', isList: true, value: 'NETWORK', group: 'network', isOurs: true, help: 'serve only TCP peers from this network, such as 10.0.0.0/8 or ::1 (default: all)' },
  { name: 'chmod-socket', aliases: ['chmod'], short: 'C', kind: 'octal', value: 'MODE', fallback: null, group: 'network', help: 'the mode of unix sockets; 666 when none is given' },
  { name: 'chown-socket', kind: 'text', value: 'USER[:GROUP]', fallback: null, group: 'network', help: 'the owner of unix sockets' },
  { name: 'listen', short: 'l', kind: 'count', value: 'N', fallback: 4096, group: 'network', help: 'so many connections may wait to be accepted; the kernel allows net.core.somaxconn' },
  { name: 'buffer-size', short: 'b', kind: 'count', value: 'BYTES', fallback: 65_535, group: 'network', help: 'refuse packets from the network with a larger block' },
  { name: 'socket-max-body', kind: 'count', value: 'BYTES', fallback: 67_108_864, group: 'network', isOurs: true, help: 'refuse tasks from the network with a larger body' },
  { name: 'socket-timeout', short: 'z', kind: 'seconds', value: 'SECONDS', fallback: 4, group: 'network', help: 'drop a peer that sends or takes nothing for so long when it should' },
  { name: 'socket-request-timeout', kind: 'seconds', value: 'SECONDS', fallback: 30, group: 'network', isOurs: true, help: 'drop a peer whose packet, or any MiB of its body, takes longer to arrive' },
  { name: 'socket-keepalive-timeout', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'network', isOurs: true, help: 'close a connection that was kept open and is not used for so long' },
  { name: 'socket-max-connections', kind: 'count', value: 'N', fallback: 1024, group: 'network', isOurs: true, help: 'so many connections at a time; one more takes the place of the one that has been waited for longest' },

  { name: 'daemonize', aliases: ['daemonize2'], short: 'd', kind: 'text', value: 'LOGFILE', fallback: null, group: 'service', help: 'go to the background once everything has started, and log to this file' },
  { name: 'pidfile', aliases: ['pidfile2'], kind: 'text', value: 'FILE', fallback: null, group: 'service', help: 'write the process id here, before privileges are dropped; a second spoold on it is refused' },
  { name: 'safe-pidfile', aliases: ['safe-pidfile2'], kind: 'text', value: 'FILE', fallback: null, group: 'service', help: 'the same, after everything has started' },
  { name: 'vacuum', kind: 'flag', fallback: false, group: 'service', help: 'remove pidfiles and unix sockets at the end' },
  { name: 'uid', kind: 'text', value: 'USER', fallback: null, group: 'service', help: 'become this user (name or number); missing spool directories are made for it' },
  { name: 'gid', kind: 'text', value: 'GROUP', fallback: null, group: 'service', help: 'become this group (name or number)' },
  { name: 'add-gid', kind: 'text', isList: true, value: 'GROUP', group: 'service', help: 'also belong to this group' },
  { name: 'master-as-root', kind: 'flag', fallback: false, group: 'service', help: 'a small parent stays root, for pidfiles, log and signals; the daemon becomes uid and gid' },
  { name: 'umask', kind: 'octal', value: 'MODE', fallback: null, group: 'service', help: 'set the umask, such as 022' },
  { name: 'chdir', kind: 'text', value: 'DIR', fallback: null, group: 'service', help: 'enter this directory before handlers are loaded' },
  { name: 'auto-procname', kind: 'flag', fallback: false, group: 'service', help: 'give the processes readable names' },
  { name: 'procname-prefix', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'put this before every process name' },
  { name: 'procname-prefix-spaced', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'put this and a space before every process name' },
  { name: 'procname-append', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'put this behind every process name' },
  { name: 'procname', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'name every process so' },
  { name: 'procname-master', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'name the master so' },
  { name: 'drain', kind: 'flag', fallback: false, group: 'service', isOurs: true, help: 'run what is due, then exit: 0 when all of it was done, else 3' },

  { name: 'spooler-quiet', kind: 'flag', fallback: false, group: 'log', help: 'no lines about single tasks that went well' },
  { name: 'logto', aliases: ['logto2'], kind: 'text', value: 'FILE', fallback: null, group: 'log', help: 'log to this file instead of standard error' },
  { name: 'log-date', aliases: ['logdate', 'log-prefix'], kind: 'text', value: 'FORMAT', fallback: null, group: 'log', help: 'begin every line with the date: iso (with milliseconds and offset), or a strftime format (%%Y-%%m-%%d in an ini); as uWSGI when none is given' },
  { name: 'log-format', kind: 'choice', choices: ['text', 'json'], fallback: 'text', group: 'log', isOurs: true, help: "uWSGI's lines, or one JSON object a line" },

  { name: 'ini', kind: 'directive', value: 'FILE[:SECTION]', group: 'configuration', help: 'read this file (section uwsgi when none is named)' },
  { name: 'include', kind: 'directive', value: 'FILE', group: 'configuration', help: 'read this file here' },
  { name: 'inherit', kind: 'directive', value: 'FILE', group: 'configuration', help: 'read this file after everything else, and expand no placeholders in it' },
  { name: 'set', short: 'S', kind: 'directive', value: 'KEY=VALUE', group: 'configuration', help: 'set an option or a placeholder' },
  { name: 'set-placeholder', aliases: ['set-ph'], kind: 'directive', value: 'KEY=VALUE', group: 'configuration', help: 'set a placeholder, also under strict' },
  { name: 'env', kind: 'directive', value: 'NAME=VALUE', group: 'configuration', help: 'set an environment variable of the handlers' },
  { name: 'unenv', kind: 'directive', value: 'NAME', group: 'configuration', help: 'remove an environment variable' },
  { name: 'strict', kind: 'flag', fallback: false, group: 'configuration', help: 'an unknown option is an error, not a warning' },
  { name: 'master', short: 'M', kind: 'flag', fallback: true, group: 'configuration', help: 'accepted: there always is a master' },
  { name: 'die-on-term', kind: 'flag', fallback: true, group: 'configuration', help: 'accepted: SIGTERM always stops' },
] as const satisfies readonly OptionSpec[]

type Spec = (typeof OPTION_TABLE)[number]
type Camel<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name
type PropertyOf<S extends Spec> = S extends { kind: 'seconds' } ? `${Camel<S['name']>}Ms` : Camel<S['name']>
type OrNull<S, Value> = S extends { fallback: null } ? Value | null : Value
type ValueOf<S extends Spec> = S extends { isList: true }
  ? readonly string[]
  : S extends { kind: 'flag' }
    ? boolean
    : S extends { kind: 'count' | 'seconds' | 'octal' }
      ? OrNull<S, number>
      : S extends { choices: readonly (infer Choice)[] }
        ? Choice
        : OrNull<S, string>

/** The typed values: `spooler-max-tasks` is `spoolerMaxTasks`, `spooler-frequency` is `spoolerFrequencyMs`. */
export type Options = { readonly [S in Exclude<Spec, { kind: 'directive' }> as PropertyOf<S>]: ValueOf<S> }

const BY_NAME: ReadonlyMap<string, OptionSpec> = new Map(
  OPTION_TABLE.flatMap((spec: OptionSpec) =>
    [spec.name, ...(spec.aliases ?? [])].map(name => [name, spec] as const),
  ),
)

export function findOption(name: string): OptionSpec | undefined {
  return BY_NAME.get(name)
}

export function optionNames(): string[] {
  return [...BY_NAME.keys()]
}

/** `spooler-frequency` → `spoolerFrequencyMs` */
export function propertyName({ name, kind }: OptionSpec): string {
  const camel = name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
  return kind === 'seconds' ? `${camel}Ms` : camel
}
