import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatProblem } from '#src/formats/ini/setting.js'
import { checkGiven } from '../ini/reading.js'

/** Returns the problems of an ini that has these lines beside what it needs. */
function problemsOf(lines: string, argv: readonly string[] = ['--ini', 'app.ini']) {
  const ini = `[uwsgi]\nspooler = spool\nspooler-import = h.mjs\n${lines}\n`
  const { options, anySpool, problems } = checkGiven({ files: { 'app.ini': ini, 'h.mjs': '' }, argv })
  return { options: { ...options, ...anySpool.options }, list: problems.list.map(formatProblem) }
}

describe('hints about a configuration', () => {
  const HINTS: Readonly<Record<string, RegExp>> = {
    'spooler = ~/spool': /^app.ini:4: warning: spooler: .*~ is not expanded; write \$\(HOME\)/,
    'spooler = $(NOPE)/spool': /warning: spooler: .*there is no environment variable NOPE/,
    'logto = %(nope).log': /warning: logto: .*nothing sets nope/,
    'spooler: spool':
      /^app.ini:4: warning: unknown option "spooler: spool"; write spooler = …, with = instead of :/,
    'spooler-harakiri = 10 m':
      /^app.ini:4: error: .*expected a number of seconds, or a time such as 90s or 10m/,
    'spooler-processes = 0': /^app.ini:4: warning: spooler-processes: .*counts as 1/,
    'spooler-processes = $(NOPE)':
      /^app.ini:4: error: spooler-processes: expected a whole number.*there is no environment variable NOPE/,
    'spooler-frequency = %(nope)': /^app.ini:4: error: spooler-frequency: .*nothing sets nope/,
    'import = $(NOPE)':
      /^app.ini:4: warning: import: a placeholder stays as it is: there is no environment variable NOPE$/,
    'env = PASSWORD=secret%(nope)':
      /^app.ini:4: warning: env: a placeholder stays as it is: nothing sets nope$/,
    'spooler = redis://:$(NOPE)@127.0.0.1/0/mail':
      /^app.ini:4: warning: spooler: a placeholder stays as it is: there is no environment variable NOPE$/,
    'socket = 10.1.0.5': /^app.ini:4: warning: socket: .*for that host write 10\.1\.0\.5:PORT/,
    'socket = 3931': /^app.ini:4: warning: socket: .*for a port write :3931/,
    'spooler = spool-*': /^app.ini:4: warning: spooler: .*\* and \? are not expanded/,
    'spooler = spool ; comment':
      /^app.ini:4: error: spooler: there is no directory .*a comment needs a line of its own/,
    'spooler-max-tasks = 1\nspooler-max-tasks = 2':
      /^app.ini:5: warning: spooler-max-tasks is given again: .*not that of line 4/,
    'yaml = other.yml': /^app.ini:4: error: yaml: other.yml: expected an ini file; .*convert it/,
    'inherit = app.ini': /^app.ini:4: error: app.ini cannot be read: it inherits itself/,
    'spooler-import = .': /^app.ini:4: error: spooler-import: expected a file, got /,
    'import = h.mjs':
      /^app.ini:4: error: import: expected Python, got h.mjs; for JavaScript write spooler-import = h.mjs$/,
    'touch-reload = h.mjs\ntouch-spoolers-reload = /nope/x':
      /^app.ini:5: warning: touch-spoolers-reload: nobody can touch \/nope\/x, because there is no directory \/nope$/,
    'touch-signal = nope/x 5':
      /^app.ini:4: warning: touch-signal: nobody can touch nope\/x, because there is no directory \//,
    'spooler-exec = ./h.mjs -v':
      /^app.ini:4: warning: spooler-exec: \.\/h\.mjs is looked for in the directory of the task/,
  }
  /** Options without effect, because another one overrules them, or because one that they need is missing. */
  const UNUSED: Readonly<Record<string, string>> = {
    'logto = a.log\ndaemonize = b.log': 'logto has no effect: daemonize names the log',
    'log-date = iso\nlog-format = json':
      'log-date has no effect: with log-format = json each line has its time',
    'master-as-root = true': 'master-as-root has no effect: it needs uid or gid',
    'socket-allow = 10.0.0.0/8': 'socket-allow has no effect: it needs socket',
    'socket-max-body = 5': 'socket-max-body has no effect: it needs socket',
    'spooler-dashboard-tokens = t': 'spooler-dashboard-tokens has no effect: it needs spooler-dashboard',
    'spooler-dashboard-enqueue = on': 'spooler-dashboard-enqueue has no effect: it needs spooler-dashboard',
    'spooler-http-insecure = on':
      'spooler-http-insecure has no effect: it needs stats, spooler-metrics, spooler-alarm or spooler-dashboard',
    'spooler2 = dir=redis://127.0.0.1/0/mail,lock=ofd':
      'spooler2: lock has no effect: a spool on Redis is no directory',
    'spooler-max-worker-lifetime-delta = 5':
      'spooler-max-worker-lifetime-delta: has no effect without max-worker-lifetime = SECONDS',
  }
  for (const [lines, warning] of Object.entries(UNUSED))
    it(`say that an option has no effect: ${JSON.stringify(lines)}`, () => {
      assert.ok(
        problemsOf(lines).list.includes(`app.ini:4: warning: ${warning}`),
        problemsOf(lines).list.join('\n'),
      )
    })

  for (const lines of [
    'logto = a.log',
    'log-date = iso',
    'master-as-root = off',
    'spooler-dashboard-enqueue = off',
    'socket-allow = 127.0.0.1\nsocket = 127.0.0.1:0',
    'spooler-lock = ofd\nspooler = redis://127.0.0.1/0/mail',
  ])
    it(`do not say that an option that is read has no effect: ${JSON.stringify(lines)}`, () => {
      const { list } = problemsOf(lines)
      assert.deepEqual(
        list.filter(problem => problem.includes('has no effect')),
        [],
      )
    })

  for (const [line, pattern] of Object.entries(HINTS))
    it(JSON.stringify(line), () => {
      const { list } = problemsOf(line)
      assert.ok(
        list.some(problem => pattern.test(problem)),
        list.join('\n'),
      )
    })

  it('leave placeholders of a shell or of Python alone', () => {
    const { list } = problemsOf(
      'spooler-exec = echo $(date)\ncron = 0 0 -1 -1 -1 touch $(hostname)\nenv = LINE=%%(asctime)s %%(message)s',
    )
    assert.deepEqual(list, [])
  })

  it('say that nothing in an ini is read, and nothing else', () => {
    const only = (text: string) => {
      const files = { 'app.ini': text, 'h.mjs': '' }
      return checkGiven({ files, argv: ['--ini', 'app.ini'] }).problems.list.map(formatProblem)
    }
    const rest = 'spooler = spool\nspooler-import = h.mjs\n'
    const nothing = /^configuration: error: nothing in app.ini is read, so there is no spool, or no handler$/
    const [capitals = '', isNothing = '', ...more] = only(`[uWSGI]\n${rest}`)
    assert.match(capitals, /has no section \[uwsgi\]; it has \[uWSGI\] \(capitals matter\)$/)
    assert.match(isNothing, nothing)
    assert.deepEqual(more, [])
    const marked = only(`\ufeff[uwsgi]\n${rest}`)
    assert.match(marked[0] ?? '', /^app.ini:1: warning: the file begins with a byte-order mark/)
    assert.match(marked[2] ?? '', nothing)
    assert.equal(marked.length, 3)
  })

  it('tell which options of uWSGI ask for work that is not done here, and which are harmless', () => {
    const { list } = problemsOf(
      'attach-daemon = memcached\nharakiri = 20\nhook-as-user = touch:x\nplugins = python3',
    )
    assert.deepEqual(list, [
      'app.ini:4: warning: spoold does not do what these options of uWSGI ask for: attach-daemon (app.ini:4; programs beside it), hook-as-user (app.ini:6; hooks, and code of C)',
      'app.ini:5: warning: these options of uWSGI have no effect in spoold: harakiri (app.ini:5), plugins (app.ini:7)',
    ])
  })

  it('say nothing about an address of Redis, which may contain a password', () => {
    const { list } = problemsOf('spooler = redis://:secret@127.0.0.1/0/mail?lock=60')
    assert.deepEqual(list, [])
  })

  it('say nothing about an option that is given again in another file or on the command line', () => {
    const { list } = problemsOf('spooler-max-tasks = 1', ['--ini', 'app.ini', '--spooler-max-tasks', '2'])
    assert.deepEqual(list, [])
  })

  it('say nothing about SPOOLD_ENQUEUE_TO, because the daemon and programs may share an environment file', () => {
    const env = { SPOOLD_ENQUEUE_TO: '/var/spool/app', SPOOLD_SPOOLER_MAX_TASKS: '2' }
    const files = {
      'app.ini': '[uwsgi]\nspooler = one\nspooler-import = h.mjs\nstrict = true\n',
      'h.mjs': '',
    }
    const { problems, spools } = checkGiven({ files, env })
    assert.deepEqual(problems.list.map(formatProblem), [])
    assert.equal(spools[0]?.options.spoolerMaxTasks, 2)
  })

  it('refuse a yaml file that the command line names', () => {
    const { list } = problemsOf('', ['--ini', 'app.ini', '--yaml', 'other.yml'])
    assert.match(list.join('\n'), /error: yaml: other.yml: expected an ini file/)
  })

  it('guess what was meant by the first hundred unknown options', () => {
    const { list } = problemsOf(
      Array.from({ length: 2000 }, (_, i) => `spooler-frequency${i % 7} = ${i}`).join('\n'),
    )
    assert.equal(list.length, 2000)
    assert.equal(list.filter(problem => problem.includes('did you mean "spooler-frequency"?')).length, 100)
  })

  for (const [what, bytes] of [
    ['a binary file', Buffer.from(Array.from({ length: 3000 }, (_, i) => (i * 7) % 256))],
    ['a program', Buffer.from(`import x from 'y'\n${'console.log(1)\nif (a) {\n}\n'.repeat(50)}`)],
  ] as const)
    it(`are few for ${what}`, () => {
      const { problems } = checkGiven({ files: { 'app.ini': bytes } })
      assert.ok(problems.list.length <= 5, problems.list.map(formatProblem).join('\n'))
    })
})

describe('spoold reads what uWSGI reads', () => {
  it('a number with a comment behind it', () => {
    const { options, list } = problemsOf(
      'spooler-frequency = 1 # Frequency for scanning\nspooler-processes=4 // four\nspooler-max-tasks = 7 ; seven',
    )
    assert.equal(options.spoolerFrequencyMs, 1000)
    assert.equal(options.spoolerProcesses, 4)
    assert.equal(options.spoolerMaxTasks, 7)
    assert.equal(list.length, 3)
    assert.ok(list.every(problem => problem.includes('warning')))
  })

  it('spooler-frequency = 0 as the shortest frequency', () => {
    const { options, list } = problemsOf('spooler-frequency = 0')
    assert.equal(options.spoolerFrequencyMs, 1000)
    assert.match(list.join(), /^app.ini:4: warning/)
  })

  it('an empty python-path', () => {
    const { options, list } = problemsOf('python-path =')
    assert.deepEqual(options.pythonpath, [])
    assert.match(list.join(), /^app.ini:4: warning: python-path: .*left out/)
  })
})

it('a file counts as one when two of its sections are read', () => {
  const ini = '[uwsgi]\nini = :spool\n[spool]\nspooler = sp\nspooler-import = h.mjs\n'
  const { files, problems } = checkGiven({ files: { 'app.ini': ini, 'h.mjs': '' } })
  assert.deepEqual(problems.errors, [])
  assert.equal(files.length, 1)
})
