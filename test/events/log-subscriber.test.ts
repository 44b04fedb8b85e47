import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import type { EventMap, LoggedEvent } from '#src/base/events/event-map.js'
import { subscribeLog } from '#src/base/events/log-subscriber.js'
import type { Level, Log } from '#src/base/log/log.js'
import { REPORT_KINDS, type Report, type ReportKind } from '#src/base/task/report.js'

interface Line {
  readonly level: Level
  readonly text: string
  readonly fields: object | undefined
  readonly isDated: boolean
}

/** Returns the lines of a log, and the emitter whose events become these lines. */
function listen(isQuiet = false, kind: { isStructured?: boolean; isPrecise?: boolean } = {}) {
  const lines: Line[] = []
  const log: Log = {
    fd: 2,
    isStructured: false,
    isPrecise: false,
    ...kind,
    line: (level, text, fields, form) => void lines.push({ level, text, fields, isDated: form === 'dated' }),
    reopen() {},
    end: async () => {},
  }
  const events = new Emitter()
  subscribeLog(events, log, () => isQuiet)
  return { events, lines, texts: () => lines.map(({ text, isDated }) => (isDated ? `DATE - ${text}` : text)) }
}

const spool = '/s'
const pid = 7
const NAME = 'uwsgi_spoolfile_on_a'

/** Every event once, with its lines. Lines that uWSGI 2.0.21 has, too, are equal to the byte. */
const LINES: { readonly [Name in LoggedEvent]: readonly [EventMap[Name], ...string[]] } = {
  'config-read': [{ file: 'app.ini' }, '[uWSGI] getting INI configuration from app.ini'],
  'config-warning': [{ message: 'app.ini:1: warning: w' }, 'app.ini:1: warning: w'],
  'fifo-unavailable': [
    { path: '/run/\x1bfifo', why: 'no \x1brights' },
    '[spooler] master fifo /run/\\x1bfifo: cannot be opened again: no \\x1brights',
  ],
  'fifo-ignored': [
    { path: '/run/app.fifo', why: 'expected one of q, got Z' },
    '[spooler] master fifo /run/app.fifo: ignored: expected one of q, got Z',
  ],
  'exporter-listening': [
    { what: 'stats', address: '127.0.0.1:1717' },
    '*** Stats server enabled on 127.0.0.1:1717 ***',
  ],
  'exporter-alarm': [{ message: 'alarm: disk' }, '[spooler exporter] alarm: disk'],
  'exporter-trouble': [{ message: 'stats: in use' }, '[spooler exporter] stats: in use'],
  'dashboard-listening': [{ address: '127.0.0.1:8717' }, '*** dashboard enabled on 127.0.0.1:8717 ***'],
  'dashboard-trouble': [{ message: 'in\nuse' }, '[spooler dashboard] in\\x0ause'],
  'pidfile-written': [{ file: 'p' }, 'writing pidfile to p'],
  'pidfile-removed': [{ kind: 'safe pidfile' }, 'VACUUM: safe pidfile removed.'],
  'pidfile-left': [{ file: '/p', error: 'EACCES' }, 'VACUUM: /p cannot be removed: EACCES'],
  'socket-opened': [
    { number: 0, how: 'bound', family: 'TCP', address: '127.0.0.1:3031', isAutoPort: true },
    'uwsgi socket 0 bound to TCP address 127.0.0.1:3031 (port auto-assigned)',
  ],
  'socket-removed': [{ file: '/run/s' }, 'VACUUM: unix socket /run/s removed.'],
  'control-unavailable': [{ place: '/s', error: 'EACCES' }, '[spooler /s] no control socket: EACCES'],
  'socket-left': [
    { file: '/run/s', error: 'EACCES' },
    'VACUUM: unix socket /run/s cannot be removed: EACCES',
  ],
  'request-stored': [{ path: '/s/t', bytes: 53 }, '[spooler] written 53 bytes to file /s/t'],
  'request-refused': [
    { peer: '10.0.0.1:5', error: 'unable to find spooler "/x\n"' },
    '[uwsgi-spooler] unable to find spooler "/x\\x0a" (from 10.0.0.1:5)',
  ],
  'modifier-unavailable': [
    { peer: '10.0.0.1:5', modifier1: 0 },
    '-- unavailable modifier requested: 0 -- (from 10.0.0.1:5)',
  ],
  'peer-turned-away': [
    { peer: '10.0.0.1:5', because: 'socket-allow does not name it' },
    '10.0.0.1:5 was turned away: socket-allow does not name it',
  ],
  'signal-registered': [
    { spool, number: 17, target: '' },
    '[uwsgi-signal] signum 17 registered (wid: 0 modifier1: 0 target: default, any worker)',
  ],
  'signal-failed': [
    { spool, pid, number: 17, error: 'Error: x' },
    'DATE - error managing signal 17 on spooler 7: Error: x',
  ],
  'signal-unhandled': [{ number: 17 }, 'DATE - error managing signal 17: no handler is registered for it'],
  'signal-unroutable': [
    { target: 'mule1\n', because: 'unsupported' },
    '^^^ UNSUPPORTED SIGNAL TARGET: mule1\\x0a ^^^',
  ],
  'signals-full': [
    { number: 17, limit: 2 },
    'could not deliver signal 17: *** SIGNAL QUEUE IS FULL: 2 signals wait ***',
  ],
  'schedule-fired': [
    { kind: 'cron', number: 17, expression: '* * * * *', zone: null },
    'DATE - [uwsgi-cron] routing signal 17',
  ],
  'schedule-changed': [
    {
      spool: '/s',
      schedule: { kind: 'timer', number: 17, everyMs: 60_000, iterations: 0 },
      verb: 'pause',
      done: 'paused, until it is resumed',
    },
    '[spooler /s] pause of signal 17 (every 60 s) by a control client: paused, until it is resumed',
  ],
  'schedules-full': [
    { kind: 'timer', limit: 2 },
    'you can register max 2 schedules !!! this timer is left out',
  ],
  'schedule-watch-failed': [
    { path: '/a', error: 'ENOSPC' },
    '[uwsgi-fsmon] unable to register monitor for "/a": ENOSPC',
  ],
  'schedules-zoned': [
    { zone: 'Asia/Kolkata', why: 'the zone of the system' },
    '[uwsgi-cron] the time zone of schedules is Asia/Kolkata, the zone of the system',
  ],
  'schedules-led': [{ spool, isLeading: true }, '[spooler /s] this daemon fires the schedules'],
  'schedule-lease-failed': [
    { spool, error: 'EACCES' },
    '[spooler /s] no schedule fires, because the lease is unavailable: EACCES',
  ],
  'periodic-left-out': [
    { spool, name: 'tick', stored: 'uwsgi_spoolfile_on_a' },
    '[spooler /s] periodic task tick is due, but uwsgi_spoolfile_on_a has not ended: it is left out this time',
  ],
  'periodic-damaged': [
    { spool, name: 'tick' },
    '[spooler /s] the state of the periodic task tick is damaged: it starts afresh',
  ],
  'periodic-failed': [
    { spool, error: 'EROFS' },
    '[spooler /s] periodic tasks cannot be scheduled, and are tried again: EROFS',
  ],
  'periodic-unplaced': [
    { name: 'tick', queue: 'mail' },
    '[spooler] periodic task tick is not scheduled: no spool is known for the queue mail; give it one in spooler-queue = mail=/var/spool/mail',
  ],
  'command-started': [{ command: 'a b', pid }, 'DATE - [uwsgi-cron] running "a b" (pid 7)'],
  'command-ended': [
    { command: 'a b', pid, ranMs: 2400 },
    '[uwsgi-cron] command "a b" running with pid 7 exited after 2 second(s)',
  ],
  'command-overran': [{ command: 'a b', pid }, '*** HARAKIRI ON CRON "a b" (pid: 7) ***'],
  'command-failed': [{ command: 'a b', error: 'ENOENT' }, '[uwsgi-cron] command "a b" cannot be run: ENOENT'],
  'identity-taken': [
    {
      uid: 33,
      gid: 34,
      groups: [
        { gid: 4, name: 'adm' },
        { gid: 99, name: null },
      ],
    },
    'setgid() to 34',
    'set additional group 4 (adm)',
    'set additional group 99',
    'setuid() to 33',
  ],
  'directory-entered': [{ directory: '/d' }, 'chdir() to /d'],
  'master-spawned': [{ pid }, 'spawned uWSGI master process (pid: 7)'],
  'daemon-started': [{ pid, version: '1.2.3' }, '*** spoold 1.2.3 is running (pid: 7) ***'],
  'start-failed': [{ error: 'boom' }, 'spoold: boom'],
  'spool-opened': [{ spool, locks: 'ofd' }, '[spooler /s] claims with record locks (spooler-lock = ofd)'],
  'worker-spawned': [{ spool, pid }, 'spawned the uWSGI spooler on dir /s with pid 7'],
  'worker-died': [
    { spool, pid, code: 1, signal: null, running: [], isReplaced: true },
    '[spooler /s pid: 7] the process exited with code 1',
    'OOOPS the spooler is no more...trying respawn...',
  ],
  'worker-fork-failed': [
    { spool, error: 'spawn ENOMEM' },
    '[spooler /s] cannot fork a process, retrying later: spawn ENOMEM',
  ],
  'worker-loading': [
    { spool, pid, what: '/h.mjs', afterMs: 10_000 },
    '[spooler /s pid: 7] /h.mjs is still loading (10 s); a top-level await, or an import that waits?',
  ],
  'worker-unfit': [
    { spool, pid, error: 'EMFILE', running: [] },
    '[spooler /s pid: 7] the process cannot continue, replacing it: EMFILE',
  ],
  'workers-kept': [
    { spool: '/s', kept: 2, error: 'it is broken' },
    '[spooler /s] 2 processes stay as before the reload, because no other can start; fix that and reload again: it is broken',
  ],
  'worker-respawn-delayed': [
    { spool, delayMs: 1600 },
    '[spooler /s] workers keep failing, next spawn in 1.6 s',
  ],
  'worker-unloadable': [
    { spool, error: '/h.mjs could not be loaded' },
    '[spooler /s] /h.mjs could not be loaded',
  ],
  'worker-recycling': [
    { spool, pid, because: { kind: 'tasks', limit: 5 } },
    '[spooler /s pid: 7] maximum number of tasks reached (5) recycling ...',
  ],
  'worker-faulted': [
    { spool, pid, error: 'Error: x', running: [] },
    '[spooler /s pid: 7] uncaught exception, replacing the process: Error: x',
  ],
  'host-died': [
    { spool: '/s', pid: 7, detail: 'the Python interpreter (pid: 8) exited with code 3' },
    '[spooler /s pid: 7] the Python interpreter (pid: 8) exited with code 3, replacing it',
  ],
  'worker-overran': [{ spool, pid }, '*** HARAKIRI ON THE SPOOLER (pid: 7) ***'],
  'tasks-overran': [
    { spool, pid, names: [`5/${NAME}`], isOwn: false },
    `[spooler /s pid: 7] task ${NAME} overran spooler-harakiri`,
  ],
  'worker-cancelled': [
    { spool, pid, names: [`5/${NAME}`, 'b'] },
    `[spooler /s pid: 7] tasks 5/${NAME}, b do not end after being cancelled: killing the process`,
  ],
  'task-cancelling': [{ spool, pid, name: `5/${NAME}` }, `[spooler /s pid: 7] task ${NAME} is cancelled`],
  'worker-out-of-mercy': [
    { spool, pid, running: [] },
    'DATE - spooler 1 (pid: 7) is taking too much time to die...NO MERCY !!!',
  ],
  'marks-left': [
    { spool, names: ['a', 'b'], error: 'EACCES' },
    '[spooler /s] interrupted runs count as crashes, because their marks cannot be cleared: a, b: EACCES',
  ],
  'worker-stopping': [{ spool, pid }, 'killing the spooler with pid 7'],
  'worker-stopped': [{ spool, pid }, 'spooler (pid: 7) annihilated'],
  'worker-cheaped': [{ spool, pid, idleMs: 12_345.6 }, '[spooler /s pid: 7] cheaped after 12.346 s idle'],
  'worker-overweight': [
    { spool, pid, number: 2, kind: 'rss', bytes: 123_456 },
    '*** EVIL RELOAD ON WORKER 2 RSS: 123456 (pid: 7) ***',
  ],
  'worker-outlived': [
    { spool, pid, number: 3, livedMs: 60_900 },
    'worker 3 lifetime reached, it was running for 60 second(s)',
  ],
  'pool-scaled': [
    { spool, algorithm: 'spare', from: 1, to: 2, reason: 'all 1 busy for 4 ticks' },
    '[spooler /s] 2 processes, not 1: all 1 busy for 4 ticks (spare)',
  ],
  'scaling-logged': [
    { spool, line: '[busyness] 20s average busyness of 1 worker(s) is at 16%' },
    '[busyness] 20s average busyness of 1 worker(s) is at 16%',
  ],
  'scaling-failed': [
    { spool, error: './mine.mjs: no' },
    '[spooler /s] the number of processes stays as it is, because its algorithm failed: ./mine.mjs: no',
  ],
  'scaling-memory-short': [{ workers: 3 }, 'cheaper hard rss memory limit exceeded, cheap one of 3 workers'],
  'spool-went-cheap': [{ spool }, 'DATE - cheaping spooler /s ...'],
  'task-started': [{ spool, pid, name: `5/${NAME}` }, `[spooler /s pid: 7] managing request ${NAME} ...`],
  'tasks-reported': [
    { spool, pid, done: [], reports: [{ ref: `5/${NAME}`, kind: 'ok', ranMs: 2999 }], known: new Set() },
    `[spooler /s pid: 7] managing request ${NAME} ...`,
    `[spooler /s pid: 7] done with task ${NAME} after 2 seconds`,
  ],
  'task-logged': [{ spool, pid, name: NAME, message: 'hello' }, `[spooler /s pid: 7] ${NAME}: hello`],
  'task-printed': [
    { spool, pid, name: `5/${NAME}`, stream: 'stdout', text: 'hello\n', isBeside: false },
    'hello',
  ],
  'spool-missing': [
    { spool, error: 'ENOENT' },
    '[spooler /s] the directory cannot be listed, waiting for it: ENOENT',
  ],
  'spool-swept': [
    { spool, removed: 2, published: 1, givenBack: 0, forgotten: 3 },
    '[spooler /s] swept leftovers of dead writers: 2 unfinished tasks removed, 1 promised task published, 0 given back',
  ],
  'spool-purged': [{ spool: '/s', removed: 3 }, '[spooler /s] purged 3 dead letters'],
  'spool-cleanup-failed': [{ spool, error: 'EACCES' }, '[spooler /s] cleanup failed: EACCES'],
  'spool-stalled': [
    { spool, what: 'scan' },
    "[spooler /s] the scan makes no progress; the service manager's watchdog is not fed",
  ],
  'spool-resumed': [{ spool, what: 'scan' }, '[spooler /s] the scan makes progress again'],
  'daemon-idle': [{ idleMs: 60_000 }, '*** nothing to do for 60 s: stopping (die-on-idle) ***'],
  'notification-failed': [
    { error: "ENOENT: no such file or directory, send '/run/n'" },
    "unable to notify the service manager: ENOENT: no such file or directory, send '/run/n'",
  ],
  'spool-back': [{ spool }, '[spooler /s] the directory is back'],
  'spool-unreachable': [
    { spool, error: 'no route', isLasting: false },
    '[spooler /s] waiting for Redis: no route',
  ],
  'spool-reached': [{ spool }, '[spooler /s] Redis answers again'],
  'spool-list-failed': [{ spool, prefix: '5/', error: 'EACCES' }, '[spooler /s] 5/ cannot be listed: EACCES'],
  'spool-list-back': [{ spool, prefix: '5/' }, '[spooler /s] 5/ is listed again'],
  'spool-unvisited': [
    { spool, prefix: '5/' },
    '[spooler /s] tasks in 5/ are not run: priorities need spooler-ordered = true',
  ],
  'spool-astray': [
    { spool, prefix: 'urgent/' },
    '[spooler /s] tasks in urgent/ are never run: the name of a priority is a number; spoold fsck says how to move them',
  ],
  'spool-task-locked': [
    { spool, name: 't', forMs: 10_400, pid: 7, command: 'sh -c x' },
    '[spooler /s] task t has been locked for 10 s by process 7 (sh -c x)',
  ],
  'watch-back': [{ spool, of: 'file-system' }, '[spooler /s] file-system events are back'],
  'watch-lost': [
    { spool, of: 'file-system', prefix: '', error: 'ENOSPC', frequencyMs: 30_000 },
    '[spooler /s] no file-system events (ENOSPC), new tasks are found every 30 s',
  ],
  'file-touched': [
    { file: '/t', asks: 'reload' },
    'DATE - *** /t has been touched... grace them all !!! ***',
  ],
  'file-awaited': [
    { file: '/t' },
    'unable to stat() /t, events will be triggered as soon as the file is created',
  ],
  'process-described': [
    {
      spool,
      pid,
      state: 'ready',
      running: [{ ref: NAME, forMs: 61_000 }],
      signals: [3],
      ahead: 2,
      kernel: 'S (sleeping) in do_wait',
    },
    `[spooler /s pid: 7] ready: runs ${NAME} for 61 s, the handler of signal 3; 2 ahead; S (sleeping) in do_wait`,
  ],
  'quiet-began': [
    { because: 'SIGTSTP' },
    'DATE - *** PAUSE (press start to resume, if you do not have a joypad send SIGTSTP) ***',
  ],
  'quiet-ended': [{ because: 'SIGTSTP' }, 'DATE - *** (SIGTSTP received) resuming workers ***'],
  'pauses-changed': [
    {
      spool,
      pauses: {
        pauses: [
          { pair: null, sinceMs: 0, untilMs: null },
          { pair: ['kind', 'na\xc3\xafve\n'], sinceMs: 0, untilMs: 1.8e12 },
        ],
      },
    },
    '[spooler /s] paused: all tasks; tasks with kind="naïve\\n", until 2027-01-15T08:00:00Z',
  ],
  'pauses-ended': [{ spool }, '[spooler /s] resumed'],
  'reload-began': [{ because: 'SIGHUP' }, '...gracefully killing workers...'],
  'reload-refused': [{ error: 'no' }, 'the reload is rejected, keeping the current configuration: no'],
  'reload-done': [{}, 'the spoolers are reloaded'],
  'stop-asked': [{ signal: 'SIGTERM' }, 'SIGINT/SIGTERM received...killing workers...'],
  'start-waits': [
    { spool: '/s', ready: 12, spools: 400, afterMs: 5000 },
    'the start takes longer than 5 s: 12 of 400 spools ready, waiting for /s',
  ],
  'stop-waits': [
    { running: [`5/${NAME}`], mercyMs: 59_700 },
    `1 task still runs (5/${NAME}), it has 60 s; a second SIGINT or SIGTERM ends it at once`,
  ],
  'stop-forced': [{ signal: 'SIGQUIT' }, 'SIGQUIT received...killing everything now'],
  'daemon-drained': [
    {
      done: 3,
      unfinished: { retry: 1, error: 0, crash: 2, buried: 0, unsettled: 0, ignore: 1, unreadable: 0 },
    },
    'drained: 3 done, 1 to be retried, 2 crashed, 1 ignored by all handlers',
  ],
  'daemon-stopped': [{}, 'goodbye to uWSGI.'],
}

describe('the line about a fired schedule', () => {
  const FIRED: ReadonlyArray<readonly [EventMap['schedule-fired'], ...string[]]> = [
    [{ kind: 'timer', number: 17, everyMs: 1000, iterations: 0 }],
    [{ kind: 'monitor', number: 17, path: '/a\n' }, 'DATE - [uwsgi-fsmon] detected event on "/a\\x0a"'],
    [{ kind: 'touch', number: 17, path: '/a' }, 'DATE - [uwsgi-touch-signal] raising 17'],
  ]
  for (const [schedule, ...expected] of FIRED)
    it(`${schedule.kind}: ${expected.length === 0 ? 'none, as in uWSGI' : "uWSGI's"}`, () => {
      const { events, texts } = listen()
      events.emit('schedule-fired', schedule)
      assert.deepEqual(texts(), expected)
    })
})

describe('the lines of an event', () => {
  for (const name of Object.keys(LINES) as LoggedEvent[])
    it(name, () => {
      const [payload, ...expected] = LINES[name]
      const { events, texts } = listen()
      events.emit(name, payload as EventMap[typeof name])
      assert.deepEqual(texts(), expected)
    })

  it('differ for variants of file-touched, worker-died and spool-opened', () => {
    const { events, texts } = listen()
    events.emit('file-touched', { file: '/t', asks: 'new-workers' })
    events.emit('worker-died', {
      spool,
      pid,
      code: null,
      signal: 'SIGSEGV',
      running: ['a', '1/b', 'c', 'd'],
      isReplaced: true,
    })
    events.emit('spool-opened', { spool, locks: 'lockfile', because: 'EINVAL' })
    assert.deepEqual(texts(), [
      'DATE - *** /t has been touched... spoolers reload !!! ***',
      '[spooler /s pid: 7] the process was killed by SIGSEGV; it had a, 1/b, c, …',
      'OOOPS the spooler is no more...trying respawn...',
      '[spooler /s] claims with lease files (spooler-lock = lockfile), which uWSGI does not see: EINVAL',
    ])
  })
})

/** Returns the lines of one report. */
function linesOf(report: Partial<Report>, { isQuiet = false, isKnown = false } = {}): string[] {
  const { events, texts } = listen(isQuiet)
  const ref = report.ref ?? NAME
  const known = new Set(isKnown ? [ref] : [])
  events.emit('tasks-reported', {
    spool,
    pid,
    done: [],
    reports: [{ ref, kind: 'ok', ranMs: 0, ...report }],
    known,
  })
  return texts()
}

const MANAGING = `[spooler /s pid: 7] managing request ${NAME} ...`

describe('the lines about a task', () => {
  const longAgo = 1000
  const CASES: ReadonlyArray<readonly [Partial<Report>, ...string[]]> = [
    [{ kind: 'ok' }, MANAGING, `[spooler /s pid: 7] done with task ${NAME} after 0 seconds`],
    [{ kind: 'retry' }, MANAGING],
    [{ kind: 'retry', detail: 'why' }, MANAGING, `[spooler /s pid: 7] task ${NAME}: why`],
    [
      { kind: 'error', detail: 'Error: x', atMs: Date.now() - 5 },
      MANAGING,
      `[spooler /s pid: 7] task ${NAME} failed, runs again in 0 ms: Error: x`,
    ],
    [
      { kind: 'ignore' },
      MANAGING,
      'unable to find the spooler function, have you loaded it into the spooler process ?',
      '[spooler /s pid: 7] task uwsgi_spoolfile_on_a was ignored by every handler, and is offered again: did one return 0, or register none?',
    ],
    [
      { kind: 'unsettled', detail: 'has finished, but its file cannot be removed: EROFS' },
      MANAGING,
      `[spooler /s pid: 7] task ${NAME} has finished, but its file cannot be removed: EROFS`,
    ],
    [
      { kind: 'buried', detail: 'it failed twice' },
      MANAGING,
      `[spooler /s pid: 7] task ${NAME} is buried: it failed twice`,
    ],
    [{ kind: 'set-aside', detail: 'it crashed' }, `[spooler /s pid: 7] task ${NAME} is buried: it crashed`],
    [{ kind: 'malformed', detail: 'no 17' }, `[spooler /s] ${NAME} is left alone: no 17`],
    [{ kind: 'unreadable', detail: 'EACCES' }, `[spooler /s] ${NAME} is left alone: EACCES`],
    [{ kind: 'incomplete', detail: 'short', atMs: longAgo }, `[spooler /s] ${NAME} is left alone: short`],
    [{ kind: 'incomplete', detail: 'short', atMs: Date.now() + 60_000 }],
    [{ kind: 'gone' }],
    [{ kind: 'locked' }],
    [{ kind: 'later' }],
    [{ kind: 'untouched' }],
    [{ kind: 'parked', reason: 'alone' }],
  ]
  for (const [report, ...expected] of CASES)
    it(`${report.kind}${report.detail === undefined ? '' : ` (${report.detail})`}`, () => {
      assert.deepEqual(linesOf(report), expected)
    })

  it('are tested for every kind of report', () => {
    assert.deepEqual(new Set(CASES.map(([{ kind }]) => kind)), new Set(REPORT_KINDS))
  })

  it('do not say that the task begins if that was logged before', () => {
    assert.deepEqual(linesOf({ kind: 'retry' }, { isKnown: true }), [])
  })

  it('say only what went wrong under spooler-quiet', () => {
    assert.deepEqual(linesOf({ kind: 'ok' }, { isQuiet: true }), [])
    assert.deepEqual(linesOf({ kind: 'retry' }, { isQuiet: true }), [])
    assert.equal(linesOf({ kind: 'error', detail: 'x' }, { isQuiet: true }).length, 1)
    assert.equal(linesOf({ kind: 'ignore' }, { isQuiet: true }).length, 1) // as in uWSGI
    const { events, lines } = listen(true)
    events.emit('task-started', { spool, pid, name: NAME })
    assert.deepEqual(lines, [])
  })

  it('name a malformed file only once', () => {
    const { events, lines } = listen()
    for (const ref of ['a', 'b', 'a', 'a'])
      events.emit('tasks-reported', {
        spool,
        pid,
        done: [],
        reports: [{ ref, kind: 'malformed', ranMs: 0 }],
        known: new Set(),
      })
    assert.equal(lines.length, 2)
  })

  it('escape names, so that no other line can be hidden in one', () => {
    const ref = 'evil\ngoodbye to uWSGI.\x1b[2J'
    const [managing] = linesOf({ ref })
    assert.equal(managing, '[spooler /s pid: 7] managing request evil\\x0agoodbye to uWSGI.\\x1b[2J ...')
  })

  it('have fields in a JSON log, with the name unescaped', () => {
    const { events, lines } = listen(false, { isStructured: true })
    const ref = '5/uwsgi_spoolfile_on_a\nb_7_1_9_1700000000_123456'
    const report: Report = { ref, kind: 'error', ranMs: 12, waitMs: 3, attempt: 2, detail: 'x', atMs: 99 }
    events.emit('tasks-reported', { spool, pid, done: [], reports: [report], known: new Set() })
    const task = { spool, worker: pid, task: ref.slice(2), priority: 5 }
    const run = { ranMs: 12, waitMs: 3, attempt: 2, arrivedAt: 1_700_000_000_123 }
    assert.deepEqual(
      lines.map(({ fields }) => fields),
      [
        { event: 'task-started', ...task },
        { event: 'task-ended', ...task, outcome: 'error', ...run, nextRunAt: 99, error: 'x' },
      ],
    )
  })

  it('say in a JSON log that a task is kept, of which uWSGI says nothing', () => {
    const { events, lines } = listen(false, { isStructured: true })
    events.emit('tasks-reported', {
      spool,
      pid,
      done: [],
      reports: [{ ref: NAME, kind: 'retry', ranMs: 0 }],
      known: new Set([NAME]),
    })
    assert.equal(lines.length, 1)
  })

  it('give run times to the millisecond if the log is precise', () => {
    const { events, texts } = listen(false, { isPrecise: true })
    events.emit('tasks-reported', {
      spool,
      pid,
      done: [],
      reports: [{ ref: NAME, kind: 'ok', ranMs: 12 }],
      known: new Set([NAME]),
    })
    assert.deepEqual(texts(), [`[spooler /s pid: 7] done with task ${NAME} after 0.012 seconds`])
  })
})

describe('the output of a handler', () => {
  const piece = { spool, pid, name: `5/${NAME}`, stream: 'stdout', isBeside: false } as const
  const done = {
    spool,
    pid,
    done: [],
    reports: [{ ref: `5/${NAME}`, kind: 'ok', ranMs: 0 }],
    known: new Set([`5/${NAME}`]),
  } as const

  it('is logged unchanged, in whole lines, and the last one when its task ends', () => {
    const { events, texts } = listen()
    for (const text of ['o', 'ne\ntw', 'o\r\n\nthree']) events.emit('task-printed', { ...piece, text })
    assert.deepEqual(texts(), ['one', 'two', ''])
    events.emit('tasks-reported', done)
    assert.deepEqual(texts().slice(3), [
      'three',
      `[spooler /s pid: 7] done with task ${NAME} after 0 seconds`,
    ])
  })

  it('is logged to its end when its task is reported, even if only by its name', () => {
    const { events, texts } = listen()
    events.emit('task-printed', { ...piece, text: 'half' })
    events.emit('tasks-reported', { ...done, done: [piece.name], reports: [] })
    assert.deepEqual(texts(), ['half'])
  })

  it('is logged to its end when its process dies', () => {
    const { events, texts } = listen()
    events.emit('task-printed', { ...piece, name: null, text: 'last words' })
    events.emit('worker-died', { spool, pid, code: 1, signal: null, running: [], isReplaced: true })
    assert.equal(texts()[0], 'last words')
  })

  it('is kept apart by task and stream, and has the name of its task if others run beside it', () => {
    const { events, texts } = listen()
    for (const text of ['a', 'b\n'])
      for (const name of ['x', 'y'])
        for (const stream of ['stdout', 'stderr'] as const)
          events.emit('task-printed', { ...piece, name, stream, text: `${text}`, isBeside: true })
    assert.deepEqual(
      texts(),
      ['x: ab', 'x: ab', 'y: ab', 'y: ab'].map(line => `[spooler /s pid: 7] ${line}`),
    )
  })

  it('has the name of its task in front if it begins like a line of the daemon', () => {
    for (const name of Object.keys(LINES) as LoggedEvent[]) {
      const [, ...own] = LINES[name]
      if (name === 'task-printed') continue
      for (const line of own.map(text => text.replace('DATE', '2026-11-21T07:06:00.123+01:00'))) {
        const { events, texts } = listen()
        events.emit('task-printed', { ...piece, text: `${line}\n` })
        assert.deepEqual(texts(), [`[spooler /s pid: 7] ${NAME}: ${line}`])
      }
    }
  })

  it('is cut into lines of at most 10,000 characters if it has no line breaks', () => {
    const { events, texts } = listen()
    for (let i = 0; i < 100; i++) events.emit('task-printed', { ...piece, text: 'x'.repeat(1000) })
    assert.ok(texts().length >= 10 && texts().every(line => line.length <= 10_000))
  })

  it('has its stream and its task as fields in a JSON log', () => {
    const { events, lines } = listen(false, { isStructured: true })
    events.emit('task-printed', { ...piece, text: '*** x\n' })
    assert.deepEqual(lines[0]?.fields, {
      event: 'task-printed',
      stream: 'stdout',
      spool,
      worker: pid,
      task: NAME,
    })
    assert.equal(lines[0]?.text, '*** x')
  })
})

describe('a file that is left alone', () => {
  it('is named once, up to 10,000 files, as the last such line says; a parked task still has its line', () => {
    const { events, texts } = listen()
    const tell = (report: Partial<Report> & Pick<Report, 'ref' | 'kind'>) =>
      events.emit('tasks-reported', {
        ...{ spool, pid, done: [], known: new Set() },
        reports: [{ ranMs: 0, ...report }],
      })
    for (let round = 0; round < 2; round++)
      for (let i = 0; i < 12_000; i++) tell({ ref: `junk ${i}`, kind: 'malformed' })
    assert.equal(texts().length, 10_000)
    assert.deepEqual(
      texts().slice(-2),
      [
        'junk 9998 is left alone: malformed',
        'junk 9999 is left alone: malformed; until a restart the log has no more such lines',
      ].map(line => `[spooler /s] ${line}`),
    )
    tell({ ref: 'a', kind: 'parked', reason: 'unknown-name', detail: 'mail' })
    assert.match(texts().at(-1) ?? '', /a is parked: no handler knows the task mail/)
  })

  it('because its disk is read-only is named once for all of its spool, and again after a task of the spool has run', () => {
    const { events, texts } = listen()
    const tell = (kind: ReportKind, ref: string, detail?: string) =>
      events.emit('tasks-reported', {
        ...{ spool, pid, done: [], known: new Set([ref]) },
        reports: [{ ref, kind, ranMs: 0, detail }],
      })
    const refuse = (...refs: string[]) => {
      for (const ref of refs) tell('unreadable', ref, `EROFS: read-only file system, open '/s/${ref}'`)
    }
    const line = (ref: string) =>
      `[spooler /s] ${ref} is left alone, as all others here: EROFS: read-only file system, open '/s/${ref}'`
    refuse('a', 'b', 'c', 'a')
    assert.deepEqual(texts(), [line('a')])
    tell('error', 'a', 'no')
    refuse('b', 'c')
    assert.deepEqual(texts().slice(2), [line('b')])
  })
})

describe('a JSON log', () => {
  it('has in each line its event, and its error if there is one', () => {
    const { events, lines } = listen(false, { isStructured: true })
    for (const name of Object.keys(LINES) as LoggedEvent[]) {
      const [payload] = LINES[name]
      const before = lines.length
      events.emit(name, payload as EventMap[typeof name])
      for (const { fields } of lines.slice(before)) {
        assert.ok(fields !== undefined && 'event' in fields, name)
        if ('error' in payload) assert.equal('error' in fields && fields.error, payload.error, name)
        // every line has the pid of the daemon: another key of that name would be a second one
        assert.ok(!('pid' in fields), name)
      }
    }
  })
})
