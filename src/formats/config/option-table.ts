/**
 * Every option, once: the source of ini keys, command-line flags, environment names, `--help`, docs/options.md and the type
 * `Options`. Users write seconds and megabytes; after `coerce`, the values are milliseconds and bytes.
 */
export interface OptionSpec {
  readonly name: string
  readonly aliases?: readonly string[]
  /** Names that in uWSGI mean its request workers. They count only in a configuration that serves no requests. */
  readonly plain?: readonly string[]
  readonly short?: string
  readonly kind: OptionKind
  /** May be given several times; the values accumulate. Otherwise the last one counts. */
  readonly isList?: true
  /** For a flag: words that it accepts besides true and false. */
  readonly choices?: readonly string[]
  /** The placeholder in `--help`. A flag that has one takes a value on the command line, because it is on by default. */
  readonly value?: string
  /** The default, in the option's own unit; null: unset. Lists start empty. */
  readonly fallback?: boolean | number | string | null
  readonly group: OptionGroup
  readonly help: string
  /** Marks seconds that no timer waits for, so that the limit of timers does not apply. */
  readonly isAge?: true
  /** True for a property of each spool, not of the daemon. */
  readonly perSpool?: true
  /** What the option creates, or writes to, in a directory that has to exist: check, doctor and unit read this. */
  readonly writes?: 'file' | 'socket' | 'fifo'
  /** True if the option names handlers, or an application that registers them. */
  readonly givesHandlers?: true
  /** True if uWSGI has no such option. */
  readonly isOurs?: true
  /** How the option falls short of what uWSGI does for it. */
  readonly part?: string
}

/** `octal`: a file mode. `directive`: controls how the configuration is read, and has no value afterwards. */
type OptionKind = 'flag' | 'count' | 'seconds' | 'megabytes' | 'text' | 'octal' | 'choice' | 'directive'
export type OptionGroup =
  | 'spools'
  | 'failures'
  | 'workers'
  | 'scaling'
  | 'handlers'
  | 'applications'
  | 'schedules'
  | 'network'
  | 'monitoring'
  | 'service'
  | 'log'
  | 'configuration'

// biome-ignore format: one option per line reads as a table
export const OPTION_TABLE = [
  { name: 'spooler', short: 'Q', kind: 'text', isList: true, value: 'DIR', group: 'spools', help: 'run the tasks in this directory, or on Redis (redis://HOST:PORT/DATABASE/NAME); naming it twice doubles the processes' },
  { name: 'spooler2', kind: 'text', isList: true, value: 'dir=DIR,KEY=VALUE,…', group: 'spools', isOurs: true, help: 'run the tasks in this directory with options of its own, named without spooler-, such as dir=/srv/mail,processes=4,import=mail.mjs' },
  { name: 'spooler-external', kind: 'text', isList: true, value: 'DIR', group: 'spools', help: 'accept tasks for this directory, but leave running them to another daemon' },
  { name: 'spooler-queue', kind: 'text', isList: true, value: 'QUEUE=DIR', group: 'spools', isOurs: true, help: 'the spool that named tasks of this queue go to if a handler schedules them' },
  { name: 'spooler-ordered', kind: 'flag', choices: ['age'], fallback: false, group: 'spools', perSpool: true, help: 'enter priority directories (1, 2, …), lower numbers first, and run tasks in order of their names, comparing numbers as numbers; =age: in order of arrival within each priority' },
  { name: 'spooler-frequency', aliases: ['spooler-freq'], kind: 'seconds', value: 'SECONDS', fallback: 30, group: 'spools', perSpool: true, help: 'scan the directory at least this often; also the delay before a retry' },
  { name: 'spooler-strict-names', kind: 'flag', fallback: false, group: 'spools', perSpool: true, isOurs: true, help: 'run only files that uWSGI would run: uwsgi_spoolfile_on_*, and numeric names when ordered' },
  { name: 'spooler-lock', kind: 'choice', choices: ['auto', 'ofd', 'lockfile'], fallback: 'auto', group: 'spools', perSpool: true, isOurs: true, help: 'how tasks are claimed: record locks, which uWSGI respects, or lease files where locks do not work; auto probes' },
  { name: 'spooler-watch', kind: 'choice', choices: ['auto', 'poll', 'off'], fallback: 'auto', group: 'spools', perSpool: true, isOurs: true, help: 'how new files are noticed between scans: file-system events, polling once per second, or not at all' },
  { name: 'spooler-sync', kind: 'flag', value: 'on|off', fallback: true, group: 'spools', perSpool: true, isOurs: true, help: "sync each stored task to disk before reporting success; off is uWSGI's behaviour" },
  { name: 'spooler-sweep', kind: 'seconds', isAge: true, value: 'SECONDS', fallback: 3600, group: 'spools', perSpool: true, isOurs: true, help: 'remove leftovers of dead writers after this long; 0 = never' },
  { name: 'spooler-id-ttl', kind: 'seconds', isAge: true, value: 'SECONDS', fallback: 604800, group: 'spools', perSpool: true, isOurs: true, help: 'remember task ids this long, to store each task only once; 0 = forever' },
  { name: 'spooler-fallback', kind: 'text', value: 'DIR', fallback: null, group: 'spools', perSpool: true, isOurs: true, help: 'for a spool on Redis: tasks go to this directory while Redis is away; whatever is in it, from whomever, is forwarded' },

  { name: 'spooler-max-attempts', kind: 'count', value: 'N', fallback: 0, group: 'failures', perSpool: true, isOurs: true, help: 'bury a task after this many failed runs; 0 = never' },
  { name: 'spooler-max-crashes', kind: 'count', value: 'N', fallback: 3, group: 'failures', perSpool: true, isOurs: true, help: 'bury a task after it has crashed its process this many times; 0 = never' },
  { name: 'spooler-backoff', kind: 'choice', choices: ['none', 'fixed', 'exponential'], fallback: 'fixed', group: 'failures', perSpool: true, isOurs: true, help: 'the delay before a failed task runs again: none, fixed, or doubling each time with random jitter' },
  { name: 'spooler-retry-delay', kind: 'seconds', isAge: true, value: 'SECONDS', fallback: null, group: 'failures', perSpool: true, isOurs: true, help: 'the fixed or initial retry delay (default: spooler-frequency; exponential: 3)' },
  { name: 'spooler-backoff-cap', kind: 'seconds', isAge: true, value: 'SECONDS', fallback: 1200, group: 'failures', perSpool: true, isOurs: true, help: 'the maximum delay with spooler-backoff = exponential' },
  { name: 'spooler-delivery', kind: 'choice', choices: ['at-least-once', 'at-most-once'], fallback: 'at-least-once', group: 'failures', perSpool: true, isOurs: true, help: 'when a process dies during a task: run the task again, or bury it because its outcome is unknown' },
  { name: 'spooler-grace', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'failures', perSpool: true, isOurs: true, help: 'bury a malformed or incomplete spool file once it has been unlocked and unchanged for this long' },
  { name: 'spooler-dead-max-age', kind: 'seconds', isAge: true, value: 'SECONDS', fallback: 0, group: 'failures', perSpool: true, isOurs: true, help: 'remove dead letters older than this; 0 = never' },
  { name: 'spooler-dead-max-count', kind: 'count', value: 'N', fallback: 0, group: 'failures', perSpool: true, isOurs: true, help: 'keep at most this many dead letters, removing the oldest; 0 = no limit' },

  { name: 'spooler-processes', kind: 'count', value: 'N', fallback: 1, group: 'workers', perSpool: true, help: 'worker processes per spooler' },
  { name: 'spooler-concurrency', kind: 'count', value: 'N', fallback: 1, group: 'workers', perSpool: true, isOurs: true, help: 'tasks in flight per worker; more than 1 only helps asynchronous handlers' },
  { name: 'spooler-max-tasks', kind: 'count', value: 'N', fallback: 0, group: 'workers', perSpool: true, help: 'replace a worker after this many tasks; 0 = never' },
  { name: 'spooler-signal-as-task', kind: 'flag', fallback: false, group: 'workers', perSpool: true, help: 'count each signal run as a task for spooler-max-tasks' },
  { name: 'spooler-harakiri', kind: 'seconds', value: 'SECONDS', fallback: 0, group: 'workers', perSpool: true, help: 'kill a worker whose task runs longer than this; 0 = never' },
  { name: 'spooler-start-timeout', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'workers', perSpool: true, isOurs: true, help: 'give up on a worker that takes longer than this to load its handlers; 0 = never' },
  { name: 'spooler-chdir', kind: 'text', value: 'DIR', fallback: null, group: 'workers', perSpool: true, help: 'change to this directory before each task (default: the directory of the task)' },
  { name: 'worker-reload-mercy', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'workers', perSpool: true, help: 'how long a running task may continue after a stop or reload before it is killed' },
  { name: 'touch-spoolers-reload', kind: 'text', isList: true, value: 'FILE', group: 'workers', help: 'replace the workers when this file is touched' },
  { name: 'touch-reload', kind: 'text', isList: true, value: 'FILE', group: 'workers', help: 'reload the configuration and replace the workers when this file is touched', part: 'the configuration is read and the workers are replaced; the program is not started again' },

  { name: 'spooler-cheaper', plain: ['cheaper'], kind: 'count', value: 'N', fallback: 0, group: 'scaling', perSpool: true, help: 'adapt the number of processes to the load: at least this many, at most spooler-processes; 0 = always all of them' },
  { name: 'spooler-cheaper-initial', plain: ['cheaper-initial'], kind: 'count', value: 'N', fallback: null, group: 'scaling', perSpool: true, help: 'start with this many processes (default: spooler-cheaper)' },
  { name: 'spooler-cheaper-step', plain: ['cheaper-step'], kind: 'count', value: 'N', fallback: null, group: 'scaling', perSpool: true, help: 'start at most this many processes at once (default: 1; latency: no limit)' },
  { name: 'spooler-cheaper-algo', aliases: ['spooler-cheaper-algorithm'], plain: ['cheaper-algo', 'cheaper-algorithm'], kind: 'text', value: 'NAME|FILE', fallback: 'spare', group: 'scaling', perSpool: true, help: 'how the number of processes is chosen: one of those that spooler-cheaper-algos-list prints, or a JavaScript module such as ./mine.mjs' },
  { name: 'spooler-cheaper-algos-list', aliases: ['spooler-cheaper-algo-list', 'spooler-cheaper-list', 'cheaper-algos-list', 'cheaper-algo-list', 'cheaper-list'], kind: 'flag', fallback: false, group: 'scaling', help: 'print the algorithms and exit' },
  { name: 'spooler-cheaper-overload', plain: ['cheaper-overload'], kind: 'count', value: 'N', fallback: 3, group: 'scaling', perSpool: true, help: 'spare: more processes after so many checks with all busy; backlog: with more than so many tasks due; busyness: the window in seconds' },
  { name: 'spooler-cheaper-idle', plain: ['cheaper-idle'], kind: 'count', value: 'N', fallback: 10, group: 'scaling', perSpool: true, help: 'spare2: one process less after so many checks with more than spooler-cheaper of them idle' },
  { name: 'spooler-cheaper-wait', kind: 'seconds', value: 'SECONDS', fallback: 0.25, group: 'scaling', perSpool: true, isOurs: true, help: 'latency: the wait that at most 5 % of the due tasks may exceed' },
  { name: 'spooler-cheaper-busyness-min', plain: ['cheaper-busyness-min'], kind: 'count', value: 'PERCENT', fallback: 25, group: 'scaling', perSpool: true, help: 'busyness: below this, a process may be stopped' },
  { name: 'spooler-cheaper-busyness-max', plain: ['cheaper-busyness-max'], kind: 'count', value: 'PERCENT', fallback: 50, group: 'scaling', perSpool: true, help: 'busyness: above this, processes are started' },
  { name: 'spooler-cheaper-busyness-multiplier', plain: ['cheaper-busyness-multiplier'], kind: 'count', value: 'N', fallback: 10, group: 'scaling', perSpool: true, help: 'busyness: how many windows must be below the minimum before a process is stopped' },
  { name: 'spooler-cheaper-busyness-penalty', plain: ['cheaper-busyness-penalty'], kind: 'count', value: 'N', fallback: 2, group: 'scaling', perSpool: true, help: 'busyness: added to the multiplier when a process has to be started again soon after one was stopped' },
  { name: 'spooler-cheaper-busyness-verbose', plain: ['cheaper-busyness-verbose'], kind: 'flag', fallback: false, group: 'scaling', perSpool: true, help: 'busyness: log what it measures' },
  { name: 'spooler-cheaper-busyness-backlog-alert', plain: ['cheaper-busyness-backlog-alert'], kind: 'count', value: 'N', fallback: 33, group: 'scaling', perSpool: true, help: 'busyness: start emergency processes when more tasks than this are due' },
  { name: 'spooler-cheaper-busyness-backlog-multiplier', plain: ['cheaper-busyness-backlog-multiplier'], kind: 'count', value: 'N', fallback: 3, group: 'scaling', perSpool: true, help: 'busyness: the multiplier while there are emergency processes' },
  { name: 'spooler-cheaper-busyness-backlog-step', plain: ['cheaper-busyness-backlog-step'], kind: 'count', value: 'N', fallback: 1, group: 'scaling', perSpool: true, help: 'busyness: how many emergency processes are started at once' },
  { name: 'spooler-cheaper-busyness-backlog-nonzero', plain: ['cheaper-busyness-backlog-nonzero'], kind: 'count', value: 'SECONDS', fallback: 60, group: 'scaling', perSpool: true, help: 'busyness: start emergency processes when tasks have been due for so many seconds' },
  { name: 'spooler-cheap', kind: 'flag', fallback: false, group: 'scaling', perSpool: true, help: 'keep no worker processes while there is nothing to run' },
  { name: 'spooler-cheap-start', plain: ['cheap'], kind: 'flag', fallback: false, group: 'scaling', perSpool: true, help: 'start no process before the first task' },
  { name: 'spooler-idle', plain: ['idle'], kind: 'seconds', value: 'SECONDS', fallback: 0, group: 'scaling', perSpool: true, help: 'stop all processes after so long without a task, until the next one; with die-on-idle: the daemon; 0 = never' },
  { name: 'spooler-die-on-idle', plain: ['die-on-idle'], kind: 'flag', fallback: false, group: 'scaling', help: 'stop once every spool has been empty for its idle seconds and there are no schedules; for daemons that systemd starts on the first task' },
  { name: 'spooler-check-interval', plain: ['check-interval'], kind: 'seconds', value: 'SECONDS', fallback: 1, group: 'scaling', help: 'how often the number of processes, their memory and their lifetime are checked' },

  { name: 'spooler-cheaper-rss-limit-soft', plain: ['cheaper-rss-limit-soft'], kind: 'count', value: 'BYTES', fallback: 0, group: 'scaling', help: 'start no further processes while all of them together have at least this much resident memory; 0 = no limit' },
  { name: 'spooler-cheaper-rss-limit-hard', plain: ['cheaper-rss-limit-hard'], kind: 'count', value: 'BYTES', fallback: 0, group: 'scaling', help: 'stop an idle process while all of them together have at least this much resident memory; 0 = no limit' },
  { name: 'spooler-memory-report', plain: ['memory-report'], kind: 'flag', choices: ['2'], fallback: false, group: 'scaling', help: 'accepted, without effect: status and statistics always have the memory of each process, and no limit needs this' },
  { name: 'spooler-reload-on-rss', plain: ['reload-on-rss'], kind: 'megabytes', value: 'MB', fallback: 0, group: 'scaling', perSpool: true, help: 'replace a worker after the task that leaves it with this much resident memory or more, its interpreter and programs included; 0 = never' },
  { name: 'spooler-reload-on-as', plain: ['reload-on-as'], kind: 'megabytes', value: 'MB', fallback: 0, group: 'scaling', perSpool: true, help: 'the same for the address space of its largest process' },
  { name: 'spooler-evil-reload-on-rss', plain: ['evil-reload-on-rss'], kind: 'megabytes', value: 'MB', fallback: 0, group: 'scaling', perSpool: true, help: 'kill a worker as soon as it has this much resident memory, even in the middle of a task; 0 = never' },
  { name: 'spooler-evil-reload-on-as', plain: ['evil-reload-on-as'], kind: 'megabytes', value: 'MB', fallback: 0, group: 'scaling', perSpool: true, help: 'the same for the address space of its largest process' },
  { name: 'spooler-max-worker-lifetime', plain: ['max-worker-lifetime'], kind: 'seconds', value: 'SECONDS', fallback: 0, group: 'scaling', perSpool: true, help: 'replace a worker after so long, once it has finished what it runs; 0 = never' },
  { name: 'spooler-max-worker-lifetime-delta', plain: ['max-worker-lifetime-delta'], kind: 'seconds', value: 'SECONDS', fallback: 0, group: 'scaling', perSpool: true, help: 'added to max-worker-lifetime for the second worker, twice for the third, and so on' },
  { name: 'spooler-min-worker-lifetime', plain: ['min-worker-lifetime'], kind: 'seconds', value: 'SECONDS', fallback: 10, group: 'scaling', perSpool: true, help: 'reload-on-rss and reload-on-as replace no worker that is younger than this' },

  { name: 'spooler-import', kind: 'text', isList: true, value: 'FILE', group: 'handlers', perSpool: true, givesHandlers: true, help: 'load a handler: a JavaScript module (its default export, an export named spooler, and all its Tasks), Python (.py, or the name of a module), Perl (.pl) or Ruby (.rb)' },
  { name: 'spooler-python-import', aliases: ['spooler-pyimport', 'spooler-py-import'], kind: 'text', isList: true, value: 'MODULE', group: 'handlers', perSpool: true, givesHandlers: true, help: 'import this Python module or file, which sets uwsgi.spooler' },
  { name: 'import', aliases: ['pyimport', 'py-import', 'python-import'], kind: 'text', isList: true, value: 'MODULE', group: 'handlers', perSpool: true, givesHandlers: true, help: 'import this Python module or file, before those of spooler-python-import' },
  { name: 'shared-import', aliases: ['shared-pyimport', 'shared-py-import', 'shared-python-import'], kind: 'text', isList: true, value: 'MODULE', group: 'handlers', perSpool: true, givesHandlers: true, help: 'import this Python module or file, before all others' },
  { name: 'python', kind: 'text', value: 'PROGRAM', fallback: null, group: 'handlers', perSpool: true, help: 'the Python interpreter (default: the one in virtualenv, or python3 on PATH)', part: 'it names the interpreter, and runs no script' },
  { name: 'virtualenv', aliases: ['home', 'venv', 'pyhome'], short: 'H', kind: 'text', value: 'DIR', fallback: null, group: 'handlers', perSpool: true, help: 'run Python in this virtual environment' },
  { name: 'pythonpath', aliases: ['python-path', 'pp'], kind: 'text', isList: true, value: 'DIR', group: 'handlers', perSpool: true, help: "add this directory to Python's module search path; * and ? work as in a shell" },
  { name: 'sharedarea', short: 'A', kind: 'text', isList: true, value: 'PAGES', group: 'handlers', help: 'shared memory for all workers, in 4 KiB pages (or size=BYTES), for the uwsgi.sharedarea_* functions', part: 'only pages and size; not file, fd and ptr' },
  { name: 'perl-exec', kind: 'text', isList: true, value: 'FILE', group: 'handlers', perSpool: true, givesHandlers: true, help: 'run this Perl file, which calls uwsgi::spooler' },
  { name: 'perl-exec-post-fork', kind: 'text', isList: true, value: 'FILE', group: 'handlers', perSpool: true, givesHandlers: true, help: 'run this Perl file after those of perl-exec' },
  { name: 'perl', kind: 'text', value: 'PROGRAM', fallback: null, group: 'handlers', perSpool: true, help: 'the Perl interpreter (default: perl on PATH)' },
  { name: 'shared-rbrequire', aliases: ['shared-rb-require', 'shared-ruby-require', 'shared-rubyrequire', 'shared-require'], kind: 'text', isList: true, value: 'FILE', group: 'handlers', perSpool: true, givesHandlers: true, help: 'require this Ruby file, or name on the load path, which defines UWSGI.spooler' },
  { name: 'rbrequire', aliases: ['rb-require', 'ruby-require', 'rubyrequire', 'require'], kind: 'text', isList: true, value: 'FILE', group: 'handlers', perSpool: true, givesHandlers: true, help: 'require this Ruby file, or name on the load path, after those of shared-rbrequire' },
  { name: 'rb-lib', aliases: ['ruby-lib'], kind: 'text', isList: true, value: 'DIR', group: 'handlers', perSpool: true, help: "add this directory to Ruby's load path" },
  { name: 'ruby', kind: 'text', value: 'PROGRAM', fallback: null, group: 'handlers', perSpool: true, help: 'the Ruby interpreter (default: ruby on PATH)' },
  { name: 'spooler-exec', kind: 'text', isList: true, value: 'COMMAND', group: 'handlers', perSpool: true, givesHandlers: true, isOurs: true, help: 'run this shell command for each task: the packet on standard input, the body on descriptor 3, the outcome by exit code' },
  { name: 'spooler-exec-input', kind: 'choice', choices: ['json', 'packet'], fallback: 'json', group: 'handlers', perSpool: true, isOurs: true, help: 'the input of spooler-exec: a JSON object, or the raw packet' },

  { name: 'module', aliases: ['wsgi'], short: 'w', kind: 'text', value: 'MODULE[:CALLABLE]', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'load this Python web application for the handlers it registers; it is not served', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'wsgi-file', aliases: ['file'], kind: 'text', value: 'FILE', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'the same for an application in a Python file', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'eval', kind: 'text', value: 'CODE', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'the same for an application in Python code', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'pecan', kind: 'text', value: 'FILE', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'the same for a Pecan configuration', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'paste', kind: 'text', value: 'URI', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'the same for a Paste application, such as config:/etc/app.ini', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'ini-paste', aliases: ['ini-paste-logged'], kind: 'text', value: 'FILE', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'read this file as ini does, and load the Paste application in it; ini-paste-logged sets up its logging, too', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'web3', kind: 'text', value: 'MODULE[:CALLABLE]', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'the same as module', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'pump', kind: 'text', value: 'MODULE[:CALLABLE]', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'the same as module', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'wsgi-lite', kind: 'text', value: 'MODULE[:CALLABLE]', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'the same as module', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'callable', kind: 'text', value: 'NAME', fallback: null, group: 'applications', perSpool: true, help: 'the name of the application in module or wsgi-file; a trailing () calls it' },
  { name: 'pyargv', kind: 'text', value: 'ARGUMENTS', fallback: null, group: 'applications', perSpool: true, help: 'the value of sys.argv in Python, separated by spaces' },
  { name: 'psgi', kind: 'text', value: 'FILE', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'load this Perl web application for the handlers it registers; it is not served', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'rack', kind: 'text', value: 'FILE', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'load this Ruby web application for the handlers it registers; it is not served', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'rails', kind: 'text', value: 'DIR', fallback: null, group: 'applications', perSpool: true, givesHandlers: true, help: 'the same for a Rails application', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'mount', kind: 'text', isList: true, value: '[MOUNTPOINT=]APP', group: 'applications', perSpool: true, givesHandlers: true, help: 'load this web application too: FILE.py, FILE.wsgi, MODULE:CALLABLE, FILE.ini (Paste), FILE.psgi, FILE.pl or FILE.ru', part: 'what it names is loaded for the handlers that it registers, and not served' },
  { name: 'paste-logger', kind: 'flag', fallback: false, group: 'applications', perSpool: true, help: 'set up logging from the file of the Paste application (logging.config.fileConfig) before it is loaded; ini-paste-logged implies it' },
  { name: 'need-app', kind: 'flag', fallback: false, group: 'applications', perSpool: true, help: 'do not start if a web application cannot be loaded, even if there are other handlers', part: 'it ends a daemon whose application cannot be loaded, and none without one' },
  { name: 'lazy-apps', aliases: ['lazy'], kind: 'flag', fallback: false, group: 'applications', perSpool: true, help: 'as in uWSGI, load no web application, unless nothing else has handlers', part: 'each worker loads everything anyway; it leaves out the application, unless spooler-load-app = on' },
  { name: 'spooler-load-app', kind: 'flag', choices: ['auto'], value: 'on|off|auto', fallback: 'auto', group: 'applications', perSpool: true, isOurs: true, help: 'load the web application for its handlers; off skips it; auto does so with lazy-apps, if there are other handlers' },

  { name: 'timer', aliases: ['signal-timer'], kind: 'text', isList: true, value: 'SIGNAL SECONDS', group: 'schedules', help: 'raise this signal at this interval' },
  { name: 'rbtimer', aliases: ['signal-rbtimer'], kind: 'text', isList: true, value: 'SIGNAL SECONDS', group: 'schedules', help: 'the same as timer; uWSGI implements it differently' },
  { name: 'signal-cron', kind: 'text', isList: true, value: 'SIGNAL [TZ=ZONE] CRON', group: 'schedules', isOurs: true, help: 'raise this signal on a cron schedule, such as 17 TZ=Europe/Berlin 30 3 * * mon-fri' },
  { name: 'fs-signal', kind: 'text', isList: true, value: 'FILE SIGNAL', group: 'schedules', help: 'raise this signal when the file, or anything in the directory, changes' },
  { name: 'touch-signal', kind: 'text', isList: true, value: 'FILE SIGNAL', group: 'schedules', help: 'raise this signal when the file is touched' },
  { name: 'cron', kind: 'text', isList: true, value: '[TZ=ZONE] CRON COMMAND', group: 'schedules', help: "run this command on a cron schedule: minute, hour, day, month, weekday, in uWSGI's notation (-1 any, -5 every fifth) or cron's", part: 'an entry with legion is an error' },
  { name: 'unique-cron', kind: 'text', isList: true, value: '[TZ=ZONE] CRON COMMAND', group: 'schedules', help: 'the same, but never while the previous run is still going' },
  { name: 'cron2', kind: 'text', isList: true, value: 'KEY=VALUE,… COMMAND', group: 'schedules', help: 'the same, with the keys minute, hour, day, month, week, unique, harakiri and zone', part: 'legion is an error' },
  { name: 'cron-harakiri', kind: 'seconds', value: 'SECONDS', fallback: 0, group: 'schedules', help: 'kill a cron command that runs longer than this; 0 = never' },

  { name: 'socket', aliases: ['uwsgi-socket'], short: 's', kind: 'text', isList: true, value: 'ADDRESS', group: 'network', writes: 'socket', help: 'accept tasks as uWSGI packets on this socket: host:port, :port, /path/to/socket or @abstract', part: 'it takes tasks; requests are refused' },
  { name: 'socket-allow', kind: 'text', isList: true, value: 'NETWORK', group: 'network', isOurs: true, help: 'accept TCP connections only from this network, such as 10.0.0.0/8 or ::1 (default: all)' },
  { name: 'chmod-socket', aliases: ['chmod'], short: 'C', kind: 'octal', value: 'MODE', fallback: null, group: 'network', help: 'the mode of unix sockets; 666 if the flag has no value' },
  { name: 'chown-socket', kind: 'text', value: 'USER[:GROUP]', fallback: null, group: 'network', help: 'the owner of unix sockets' },
  { name: 'listen', short: 'l', kind: 'count', value: 'N', fallback: 4096, group: 'network', help: 'the backlog of connections waiting to be accepted; the kernel caps it at net.core.somaxconn' },
  { name: 'buffer-size', short: 'b', kind: 'count', value: 'BYTES', fallback: 65_535, group: 'network', help: 'refuse network packets whose block is larger than this' },
  { name: 'socket-max-body', kind: 'count', value: 'BYTES', fallback: 67_108_864, group: 'network', isOurs: true, help: 'refuse network tasks whose body is larger than this' },
  { name: 'socket-timeout', short: 'z', kind: 'seconds', value: 'SECONDS', fallback: 4, group: 'network', help: 'disconnect a peer that stalls for this long' },
  { name: 'socket-request-timeout', kind: 'seconds', value: 'SECONDS', fallback: 30, group: 'network', isOurs: true, help: 'disconnect a peer whose packet, or any MiB of its body, takes longer than this to arrive' },
  { name: 'socket-keepalive-timeout', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'network', isOurs: true, help: 'close a kept-open connection that has been idle for this long' },
  { name: 'socket-max-connections', kind: 'count', value: 'N', fallback: 1024, group: 'network', isOurs: true, help: 'maximum number of connections; a new one then replaces the one that has stalled longest' },

  { name: 'stats', aliases: ['stats-server'], kind: 'text', value: 'ADDRESS', fallback: null, group: 'monitoring', writes: 'socket', help: "publish uWSGI's statistics as JSON on this socket: host:port, /path/to/socket or @abstract" },
  { name: 'stats-http', kind: 'flag', fallback: false, group: 'monitoring', help: 'publish the statistics over HTTP' },
  { name: 'stats-minified', aliases: ['stats-min'], kind: 'flag', fallback: false, group: 'monitoring', help: 'publish the statistics without white space' },
  { name: 'stats-no-cores', kind: 'flag', fallback: false, group: 'monitoring', help: "leave out each worker's cores" },
  { name: 'stats-push', kind: 'text', isList: true, value: 'KIND:WHERE', group: 'monitoring', writes: 'file', help: 'push the statistics: statsd:host:port[,prefix], or file:path=FILE[,freq=SECONDS][,separator=TEXT]', part: 'statsd and file; no other destinations' },
  { name: 'stats-pusher-default-freq', aliases: ['stats-pushers-default-freq'], kind: 'seconds', value: 'SECONDS', fallback: 3, group: 'monitoring', help: 'how often stats-push pushes' },
  { name: 'statsd-no-workers', kind: 'flag', fallback: false, group: 'monitoring', help: 'push no metrics of single workers to statsd' },
  { name: 'statsd-all-gauges', kind: 'flag', fallback: false, group: 'monitoring', help: 'push counters to statsd as gauges, with their values' },
  { name: 'carbon', kind: 'text', isList: true, value: 'HOST:PORT', group: 'monitoring', help: "push metrics to this Graphite server, with the names of uWSGI's" },
  { name: 'carbon-freq', kind: 'seconds', value: 'SECONDS', fallback: 60, group: 'monitoring', help: 'how often metrics are pushed to Graphite' },
  { name: 'carbon-timeout', kind: 'seconds', value: 'SECONDS', fallback: 3, group: 'monitoring', help: 'give up on a Graphite server that takes longer' },
  { name: 'carbon-id', kind: 'text', value: 'NAME', fallback: null, group: 'monitoring', help: 'the name of this instance in Graphite (default: the first socket, or spoold)' },
  { name: 'carbon-root', kind: 'text', value: 'NODE', fallback: 'uwsgi', group: 'monitoring', help: 'the first node of the names in Graphite' },
  { name: 'carbon-hostname-dots', kind: 'text', value: 'CHARACTER', fallback: null, group: 'monitoring', help: "replaces dots in the host's name in Graphite" },
  { name: 'carbon-no-workers', kind: 'flag', fallback: false, group: 'monitoring', help: 'push no metrics of single workers to Graphite' },
  { name: 'carbon-idle-avg', kind: 'choice', choices: ['last', 'zero', 'none'], fallback: 'last', group: 'monitoring', help: 'what is pushed as average run time while nothing has run since the last push' },
  { name: 'spooler-metrics', kind: 'text', value: 'ADDRESS', fallback: null, group: 'monitoring', isOurs: true, writes: 'socket', help: 'publish metrics for Prometheus over HTTP, at /metrics: host:port, /path/to/socket or @abstract' },
  { name: 'spooler-metrics-file', kind: 'text', value: 'FILE', fallback: null, group: 'monitoring', isOurs: true, writes: 'file', help: 'write the metrics to this file every 15 seconds, for the textfile collector of node_exporter: a path that ends with .prom' },
  { name: 'spooler-alarm', kind: 'text', isList: true, value: 'KEY=VALUE,…', group: 'monitoring', isOurs: true, help: 'log alarms, and post them to a webhook: url=https://… or url=@FILE, secret=@FILE to sign them, max-due=N, max-age=10m, min-free=PERCENT' },
  { name: 'spooler-dashboard', kind: 'text', isList: true, value: 'ADDRESS[,KEY=VALUE…]', group: 'monitoring', isOurs: true, writes: 'socket', help: 'show tasks and act on them in a browser, from a process of its own: 127.0.0.1:8717, or a path with role=viewer, operator or admin, payload, proxy and mode=0660, separated by commas; host=NAME adds a name of the server, prefix=/PATH is where a proxy has it' },
  { name: 'spooler-dashboard-tokens', kind: 'text', value: 'FILE', fallback: null, group: 'monitoring', isOurs: true, help: 'let those in who have a token of this file, which spoold token writes; nobody else on host:port' },
  { name: 'spooler-dashboard-enqueue', kind: 'flag', fallback: false, group: 'monitoring', isOurs: true, help: 'let admins of the dashboard enqueue and edit tasks, which runs code as far as handlers do' },
  { name: 'spooler-hide', kind: 'text', isList: true, value: 'KEY,…', group: 'monitoring', isOurs: true, help: 'hide the values of these keys wherever tasks are shown: in the dashboard, logs, errors, commands, sockets and metrics, in nested JSON too; and whatever cannot be parsed, such as pickles' },
  { name: 'spooler-http-insecure', kind: 'flag', fallback: false, group: 'monitoring', isOurs: true, help: 'allow statistics, metrics, alarms and the dashboard over plain HTTP on addresses that other machines can reach' },

  { name: 'daemonize', aliases: ['daemonize2'], short: 'd', kind: 'text', value: 'LOGFILE', fallback: null, group: 'service', writes: 'file', help: 'run in the background once everything has started, and log to this file' },
  { name: 'pidfile', aliases: ['pidfile2'], kind: 'text', value: 'FILE', fallback: null, group: 'service', writes: 'file', help: 'write the process id to this file before dropping privileges; a second spoold with the same file does not start' },
  { name: 'safe-pidfile', aliases: ['safe-pidfile2'], kind: 'text', value: 'FILE', fallback: null, group: 'service', writes: 'file', help: 'the same, but written after everything has started' },
  { name: 'vacuum', kind: 'flag', fallback: false, group: 'service', help: 'remove pidfiles and unix sockets on exit' },
  { name: 'uid', kind: 'text', value: 'USER', fallback: null, group: 'service', help: 'run as this user (name or number); missing spool directories are created for it' },
  { name: 'gid', kind: 'text', value: 'GROUP', fallback: null, group: 'service', help: 'run as this group (name or number)' },
  { name: 'add-gid', kind: 'text', isList: true, value: 'GROUP', group: 'service', help: 'add this supplementary group' },
  { name: 'master-as-root', kind: 'flag', fallback: false, group: 'service', help: 'keep a small root parent for pidfiles, log and signals; the daemon itself runs as uid and gid' },
  { name: 'umask', kind: 'octal', value: 'MODE', fallback: null, group: 'service', help: 'set the umask, such as 022' },
  { name: 'chdir', kind: 'text', value: 'DIR', fallback: null, group: 'service', help: 'change to this directory before loading handlers' },
  { name: 'auto-procname', kind: 'flag', fallback: false, group: 'service', help: 'give all processes readable names' },
  { name: 'procname-prefix', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'prefix every process name with this text' },
  { name: 'procname-prefix-spaced', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'prefix every process name with this text and a space' },
  { name: 'procname-append', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'append this text to every process name' },
  { name: 'procname', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'the name of every process' },
  { name: 'procname-master', kind: 'text', value: 'TEXT', fallback: null, group: 'service', help: 'the name of the master' },
  { name: 'spooler-control', kind: 'text', isList: true, value: 'PATH[,role=ROLE][,mode=MODE]', group: 'service', isOurs: true, writes: 'socket', help: 'another control socket, besides .spoold/control in each spool: role=viewer only reads (mode 0660), role=operator also acts (the default, mode 0600); off: no sockets in the spools' },
  { name: 'master-fifo', kind: 'text', isList: true, value: 'FILE', group: 'service', writes: 'fifo', help: 'obey letters written to this FIFO, which is created if missing: q stop, Q stop at once, r reload, l reopen the log, p pause or go on, s log what every process does', part: 'letters for web workers, the emperor and subscriptions are logged as ignored' },
  { name: 'drain', kind: 'flag', fallback: false, group: 'service', isOurs: true, help: 'run what is due, then exit: 0 if all of it succeeded, 3 otherwise' },

  { name: 'spooler-quiet', kind: 'flag', fallback: false, group: 'log', perSpool: true, help: 'do not log individual tasks that succeed' },
  { name: 'logto', aliases: ['logto2'], kind: 'text', value: 'FILE', fallback: null, group: 'log', writes: 'file', help: 'log to this file instead of standard error' },
  { name: 'log-date', aliases: ['logdate', 'log-prefix'], kind: 'text', value: 'FORMAT', fallback: null, group: 'log', help: "start each line that no handler prints with the date: iso (with milliseconds and offset), or a strftime format (%%Y-%%m-%%d in an ini); without a value, uWSGI's format" },
  { name: 'log-format', kind: 'choice', choices: ['text', 'json'], fallback: 'text', group: 'log', isOurs: true, help: "uWSGI's lines, or one JSON object per line" },

  { name: 'ini', kind: 'directive', value: 'FILE[:SECTION]', group: 'configuration', help: 'read this file (section uwsgi unless another is named)' },
  { name: 'include', kind: 'directive', value: 'FILE', group: 'configuration', help: 'read this file at this point' },
  { name: 'inherit', kind: 'directive', value: 'FILE', group: 'configuration', help: 'read this file after everything else, without expanding placeholders in it' },
  { name: 'set', short: 'S', kind: 'directive', value: 'KEY=VALUE', group: 'configuration', help: 'set an option or a placeholder' },
  { name: 'set-placeholder', aliases: ['set-ph'], kind: 'directive', value: 'KEY=VALUE', group: 'configuration', help: 'set a placeholder; allowed under strict' },
  { name: 'env', kind: 'directive', value: 'NAME=VALUE', group: 'configuration', help: 'set an environment variable for handlers' },
  { name: 'unenv', kind: 'directive', value: 'NAME', group: 'configuration', help: 'remove an environment variable' },
  { name: 'spooler-take', kind: 'text', isList: true, value: 'OPTION,…', group: 'configuration', isOurs: true, help: "in the ini of a web site, take these options too, which are left to its uWSGI otherwise: socket, pidfile, safe-pidfile, logto, daemonize, stats, master-fifo, vacuum, or all" },
  { name: 'strict', kind: 'flag', fallback: false, group: 'configuration', help: 'make unknown options an error, not a warning' },
  { name: 'master', short: 'M', kind: 'flag', fallback: true, group: 'configuration', help: 'accepted for compatibility: there is always a master', part: 'always on' },
  { name: 'die-on-term', kind: 'flag', fallback: true, group: 'configuration', help: 'accepted for compatibility: SIGTERM always stops the daemon', part: 'always on' },
] as const satisfies readonly OptionSpec[]

// The file is long because the table has one row per option.
type Spec = (typeof OPTION_TABLE)[number]
type Camel<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name
type PropertyOf<S extends Spec> = S extends { kind: 'seconds' }
  ? `${Camel<S['name']>}Ms`
  : S extends { kind: 'megabytes' }
    ? `${Camel<S['name']>}Bytes`
    : Camel<S['name']>
type OrNull<S, Value> = S extends { fallback: null } ? Value | null : Value
type ValueOf<S extends Spec> = S extends { isList: true }
  ? readonly string[]
  : S extends { kind: 'flag' }
    ? boolean | (S extends { choices: readonly (infer Choice)[] } ? Choice : never)
    : S extends { kind: 'count' | 'seconds' | 'megabytes' | 'octal' }
      ? OrNull<S, number>
      : S extends { choices: readonly (infer Choice)[] }
        ? Choice
        : OrNull<S, string>

type ValuesOf<Some extends Spec> = {
  readonly [S in Exclude<Some, { kind: 'directive' }> as PropertyOf<S>]: ValueOf<S>
}
type PerSpool = Extract<Spec, { perSpool: true }>
/** The options that define spools. A spool has options of its own, so these belong neither to the daemon nor to a spool. */
type SpoolNaming = Extract<Spec, { name: 'spooler' | 'spooler2' | 'spooler-external' }>

/** The daemon's typed values: `spooler-quiet` is `spoolerQuiet`, `worker-reload-mercy` is `workerReloadMercyMs`. */
export type Options = ValuesOf<Exclude<Spec, PerSpool | SpoolNaming>>
/** A spool's typed values: `spooler-max-tasks` is `spoolerMaxTasks`, `spooler-frequency` is `spoolerFrequencyMs`. */
export type SpoolOptions = ValuesOf<PerSpool>

const BY_NAME: ReadonlyMap<string, OptionSpec> = new Map(
  OPTION_TABLE.flatMap((spec: OptionSpec) =>
    [spec.name, ...(spec.aliases ?? []), ...(spec.plain ?? [])].map(name => [name, spec] as const),
  ),
)

export function findOption(name: string): OptionSpec | undefined {
  return BY_NAME.get(name)
}

export function optionNames(): string[] {
  return [...BY_NAME.keys()]
}

const UNITS: Readonly<Partial<Record<OptionKind, string>>> = { seconds: 'Ms', megabytes: 'Bytes' }

/** `spooler-frequency` → `spoolerFrequencyMs` */
export function propertyName({ name, kind }: OptionSpec): string {
  const camel = name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
  return `${camel}${UNITS[kind] ?? ''}`
}
