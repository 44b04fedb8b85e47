import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { COMMANDS } from '#src/doors/cli/command-table.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

describe('spoold --help and --version', () => {
  it('print to standard output and exit with 0', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    assert.deepEqual(await inProcess(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' })
    for (const args of [['--help'], ['help']]) {
      const { code, stdout, stderr } = await inProcess(args)
      assert.equal(code, 0)
      assert.equal(stderr, '')
      for (const word of [
        '--spooler <DIR>',
        '--daemonize',
        'check',
        'ls',
        'show',
        'enqueue',
        'Exit codes: 0',
      ])
        assert.ok(stdout.includes(word), `${args} says ${word}`)
    }
    for (const { name: command } of COMMANDS) {
      const { code, stdout } = await inProcess([command, '--help'])
      assert.equal(code, 0)
      assert.match(stdout, new RegExp(`^Usage: spoold ${command} `))
    }
  })
})

describe('a wrong command line', { concurrency: 4 }, () => {
  const missing = '/nonexistent/spool'
  const WRONG: ReadonlyArray<readonly [args: readonly string[], expected: RegExp, exitCode?: number]> = [
    [['--nope'], /unknown option '--nope'; see spoold --help/],
    [['--spooler-procesess', '3'], /Did you mean --spooler-processes\?/],
    [
      ['--log-date', 'iso'],
      /^spoold: \[USAGE\] iso: no such file; a value of log-date is written --log-date=iso$/,
      64,
    ],
    [['-C', '660'], /a value of chmod-socket is written --chmod-socket=660$/, 64],
    [['--spooler'], /^spoold: --spooler: expected <DIR>, got nothing; see spoold --help$/],
    [
      ['--spooler-py', 'tasks'],
      /--spooler-py is ambiguous: it may be --spooler-python-import(?:, --spooler-py\S+)*/,
      64,
    ],
    [['ls'], /name a spool directory, or --ini FILE/, 64],
    [['ls', '--oops', '.'], /unknown option '--oops'; see spoold ls --help/, 64],
    [['ls', missing], /\/nonexistent\/spool does not exist; name a spool directory/],
    [['ls', '/dev/null'], /\/dev\/null is not a directory; .* spoold show/],
    [['ls', '--state', 'dying', '.'], /--state: expected one or more of due,.*dead, got "dying"/, 64],
    [['ls', '--older-than', 'long', '.'], /--older-than: expected an age such as .*, got "long"/, 64],
    [['ls', '--priority', '-1', '.'], /--priority: expected a whole number, got "-1"/, 64],
    [['ls', '--key', 'to', '.'], /--key: expected key=value, got "to"/, 64],
    [['rm'], /name a file or a spool directory, or --ini FILE/, 64],
    [['rm', '/tmp'], /which tasks in \/tmp\? Use filters, or --all/, 64],
    [['hold', missing], /^spoold: \/nonexistent\/spool does not exist$/],
    [['move', '/tmp'], /required option '--to <spool>' not specified; see spoold move --help/, 64],
    [['move', '--all', '/tmp', '--to', missing], /\/nonexistent\/spool does not exist/],
    [['purge', '/tmp'], /say which dead letters: --max-age TIME, --max-count N or both, or --all/, 64],
    [['purge', '/tmp', '--max-count', 'x'], /--max-count: expected a whole number, got "x"/, 64],
    [
      ['fsck', 'package.json'],
      /^spoold: \[SPOOL_UNUSABLE\] package\.json is not a directory; .*; an ini file goes with --ini$/,
    ],
    [['completion', 'bash', 'zsh'], /Expected 1 argument but got 2; see spoold completion --help$/, 64],
    [['show'], /name a task: its file, or its name and --ini FILE/, 64],
    [['show', missing], /\/nonexistent\/spool does not exist/],
    [['show', '/tmp'], /expected a task, got the spool \/tmp; spoold ls lists it/, 64],
    [['show', '/dev/null'], /\/dev\/null cannot be read: it is not a regular file/],
    [
      ['show', join(ROOT, 'package.json')],
      /package\.json is not a spool packet \(malformed\): modifier1 is 123, expected 17/,
    ],
    [
      ['enqueue', 'a=b'],
      /\[USAGE\] say where, with one of --spooler DIR, --ini FILE and --socket ADDRESS/,
      64,
    ],
    [['enqueue', '--spooler', missing, '--ini', 'app.ini', 'a=b'], /\[USAGE\] say where, with one of/, 64],
    [['enqueue', '--nope'], /unknown option '--nope'; see spoold enqueue --help/, 64],
    [['enqueue', '--spooler', missing, 'ab'], /expected key=value, got "ab"/, 64],
    [['enqueue', '--spooler', missing, '=b'], /expected key=value, got "=b"/, 64],
    [
      ['enqueue', '--spooler', missing, 'a=b', '--at', 'soon'],
      /--at: expected epoch seconds.*got "soon"/,
      64,
    ],
    [
      ['enqueue', '--spooler', missing, `a=@${missing}`],
      /the value of a, the file .*spool cannot be read: ENOENT/,
    ],
    [['enqueue', '--spooler', missing, '--json', '-', '--body', '-'], /cannot both be standard input/, 64],
    [
      ['enqueue', '--spooler', missing, 'a=b', '--body', missing],
      /the body \/nonexistent\/spool cannot be read: ENOENT/,
    ],
    [['enqueue', '--spooler', missing, 'a=b'], /To fix it: install -d -m 0750 .* \/nonexistent\/spool$/],
    [['--logto', '127.0.0.1:99', '--spooler', '.', '--spooler-import', 'package.json'], /not sent over UDP/],
  ]
  for (const [args, expected, exitCode = 1] of WRONG)
    it(`gets one sentence and exit code ${exitCode}: spoold ${args.join(' ')}`, async () => {
      const { code, stdout, stderr } = await spoold(args, { cwd: ROOT })
      assert.equal(code, exitCode)
      assert.equal(stdout, '')
      assert.match(stderr, /^spoold: [^\n]+\n$/)
      assert.match(stderr.trim(), expected)
    })
})

describe('a word that is no command', { concurrency: 4 }, () => {
  for (const [args, expected] of [
    [['chek', 'app.ini'], 'chek: no such file, and no command; did you mean check?'],
    [['enque', '--spooler', '.', 'to=joe'], 'enque: no such file, and no command; did you mean enqueue?'],
    [['sl', '.'], 'sl: no such file, and no command; see spoold --help'],
    [['Check'], 'Check: no such file, and no command; did you mean check?'],
    [['start', 'app.ini'], 'start: no such file, and no command; spoold app.ini runs the daemon'],
    [['stop'], 'stop: no such file, and no command; send SIGTERM to the daemon'],
    [['restart'], 'restart: no such file, and no command; SIGHUP reloads the daemon'],
    [['help', 'chek'], 'chek: no such command; did you mean check?'],
    [['help', 'app.ini'], 'app.ini: no such command; see spoold --help'],
    [['version'], 'version: no such file, and no command; spoold --version prints it'],
    [['constructor'], 'constructor: no such file, and no command; see spoold --help'],
  ] as const)
    it(`is distinguished from an ini: spoold ${args.join(' ')}`, async () => {
      const { code, stdout, stderr } = await spoold(args, { cwd: workspace() })
      assert.deepEqual([code, stdout], [64, ''])
      assert.ok(stderr.startsWith(`spoold: [USAGE] ${expected}`), stderr)
      assert.equal(stderr.split('\n').length, 2)
    })

  it('is taken for an ini when there is such a file, or when it looks like the name of one', async () => {
    const directory = workspace()
    writeFileSync(join(directory, 'stop'), '[uwsgi]\nspooler = /nonexistent/spool\n')
    for (const file of ['stop', './status', 'status.ini', 'app:section']) {
      const { code, stderr } = await spoold([file], { cwd: directory })
      assert.equal(code, 1)
      assert.match(stderr, /^spoold: \[CONFIG_INVALID\]/)
    }
  })

  it('-v alone asks for the version; with a value it is max-vars, as in uWSGI', async () => {
    assert.deepEqual(await inProcess(['-v']), await inProcess(['--version']))
    assert.match((await inProcess(['-v', '7', '--spooler', '/nonexistent'])).stderr, /max-vars/)
  })
})

describe('a flag with a value', () => {
  const run = (...flags: string[]) => inProcess(['check', '--spooler', '/nonexistent', ...flags])

  it('means what it means in a file, true or false, even if it is abbreviated', async () => {
    for (const flag of ['--strict=true', '--strict=on', '--stri=1', '--strict'])
      assert.match((await run(flag, '--set=nope=1')).stdout, /error: unknown option "nope"/, flag)
    for (const flag of ['--strict=false', '--strict=off', '--stri=0'])
      assert.match((await run(flag, '--set=nope=1')).stdout, /warning: unknown option "nope"/, flag)
    assert.match((await run('--strict=perhaps')).stdout, /strict: expected true or false, got "perhaps"/)
  })

  it('is refused in one sentence when the flag takes no value', async () => {
    assert.deepEqual(await inProcess(['--help=x']), {
      code: 64,
      stdout: '',
      stderr: 'spoold: [USAGE] --help takes no value, got "x"\n',
    })
  })
})

describe('what Kubernetes puts into the environment', () => {
  const env = {
    SPOOLD_SERVICE_HOST: '10.0.0.1',
    SPOOLD_SERVICE_PORT: '3031',
    SPOOLD_SERVICE_PORT_UWSGI: '3031',
    SPOOLD_PORT: 'tcp://10.0.0.1:3031',
    SPOOLD_PORT_3031_TCP: 'tcp://10.0.0.1:3031',
    SPOOLD_PORT_3031_TCP_PROTO: 'tcp',
    SPOOLD_PORT_3031_TCP_PORT: '3031',
    SPOOLD_PORT_3031_TCP_ADDR: '10.0.0.1',
    SPOOLD_METRICS_PORT: 'udp://10.0.0.2:1',
    UWSGI_PORT: 'tcp://10.0.0.1:80',
    UWSGI_SERVICE_HOST: '10.0.0.1',
  }

  it('is not read as an option, strict or not', async () => {
    for (const strict of ['--strict=true', '--strict=false']) {
      const { stdout } = await inProcess(['check', strict, '--spooler', '/nonexistent'], { env })
      assert.doesNotMatch(stdout, /environment/)
    }
  })

  it('is read as an option when the name is that of an option', async () => {
    const some = { SPOOLD_REUSE_PORT: '1', SPOOLD_SPOOLER_PROCESSES: 'many', SPOOLD_NOPE: '1' }
    const { stdout } = await inProcess(['check', '--strict', '--spooler', '/nonexistent'], { env: some })
    assert.match(stdout, /environment SPOOLD_REUSE_PORT/)
    assert.match(stdout, /environment SPOOLD_SPOOLER_PROCESSES: error: .*expected a whole number/)
    assert.match(stdout, /environment SPOOLD_NOPE: warning: unknown option "nope"/)
  })
})

describe('spoold check', () => {
  const good = () => {
    const spool = spoolDirectory()
    const handler = join(workspace(), 'h.mjs')
    writeFileSync(handler, 'export default () => -2')
    return { spooler: spool, 'spooler-import': handler }
  }

  it('exits with 0 for a good configuration, and counts its spools and warnings', async () => {
    const ini = join(workspace(), 'app.ini')
    writeIni(ini, good())
    assert.deepEqual(await inProcess(['check', ini]), {
      code: 0,
      stdout: `${ini}: the configuration is good (1 spool), 0 warnings\n`,
      stderr: '',
    })
  })

  it('exits with 0 for warnings, and prints each with its line', async () => {
    const ini = join(workspace(), 'app.ini')
    writeIni(ini, { ...good(), 'spooler-orderd': true })
    const { code, stdout } = await inProcess(['check', ini])
    assert.equal(code, 0)
    assert.match(
      stdout,
      /app\.ini:4: warning: unknown option "spooler-orderd"; did you mean "spooler-ordered"\?/,
    )
    assert.match(stdout, /good \(1 spool\), 1 warning\n$/)
  })

  it('exits with 1 for errors, and prints all of them at once', async () => {
    const ini = join(workspace(), 'app.ini')
    writeIni(ini, { ...good(), 'spooler-processes': 'many', chdir: '/nonexistent' })
    const { code, stdout } = await inProcess(['check', ini])
    assert.equal(code, 1)
    assert.match(stdout, /app\.ini:4: error: spooler-processes: expected a whole number/)
    assert.match(stdout, /app\.ini:5: error: chdir: expected a directory, got \/nonexistent/)
    assert.match(stdout, /: 2 errors, 0 warnings\n$/)
  })

  it('accepts a time with a unit for an option in seconds', async () => {
    const ini = join(workspace(), 'app.ini')
    for (const time of ['10m', '1h30m', '500ms', ' 2d ', '1.5', '+7']) {
      writeIni(ini, { ...good(), 'spooler-harakiri': time })
      assert.equal((await inProcess(['check', ini])).code, 0, time)
    }
    for (const time of ['10 m', '5x', 'm', '-1m']) {
      writeIni(ini, { ...good(), 'spooler-harakiri': time })
      assert.match(
        (await inProcess(['check', ini])).stdout,
        /spooler-harakiri: expected a number of seconds, or a time/,
      )
    }
    writeIni(ini, { ...good(), 'spooler-harakiri': '9w' })
    assert.match(
      (await inProcess(['check', ini])).stdout,
      /warning: spooler-harakiri: expected at most 2147483 seconds/,
    )
  })

  it('checks the options that are given on the command line', async () => {
    const { spooler, 'spooler-import': handler } = good()
    const { code } = await spoold(['check', '--spooler', spooler, '--spooler-import', handler])
    assert.equal(code, 0)
    const wrong = await spoold(['check', '--spooler', spooler, '--spooler-import', handler, '--umask', '9'])
    assert.equal(wrong.code, 1)
    assert.match(
      wrong.stdout,
      /command line: error: umask: expected 3 or 4 octal digits.*\n.*: 1 error, 0 warn/,
    )
  })

  it('reports an error when the spool is a link to a directory whose name is not UTF-8', async () => {
    const directory = workspace()
    const target = Buffer.concat([Buffer.from(`${directory}/`), Buffer.of(0xe9)])
    mkdirSync(target)
    symlinkSync(target, join(directory, 'spool'))
    const { code, stdout } = await inProcess([
      'check',
      '--spooler-exec',
      'true',
      '--spooler',
      join(directory, 'spool'),
    ])
    assert.equal(code, 1)
    assert.match(
      stdout,
      /^command line: error: spooler: \S+\/spool is a link to a directory whose name is not UTF-8$/m,
    )
  })

  it('reports an error when the spool is a link that leads nowhere', async () => {
    const spool = join(workspace(), 'spool')
    symlinkSync('nowhere', spool)
    const { 'spooler-import': handler } = good()
    const { code, stdout } = await spoold(['check', '--spooler', spool, '--spooler-import', handler])
    assert.match(stdout, /^command line: error: spooler: \S+\/spool is a link that leads nowhere$/m)
    assert.equal(code, 1)
  })

  it('starts nothing and makes nothing', async () => {
    const directory = workspace()
    const { 'spooler-import': handler } = good()
    const made = join(directory, 'spool')
    await inProcess([
      'check',
      '--spooler',
      made,
      '--spooler-import',
      handler,
      '--pidfile',
      join(directory, 'pid'),
    ])
    assert.deepEqual(readdirSync(directory), [])
  })
})
