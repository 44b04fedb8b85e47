import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { COMMANDS } from '#src/doors/cli/command-table.js'
import { askDaemon } from '#src/engines/control/client.js'
import { inProcess } from '../helpers/cli.js'
import { controlOf } from '../helpers/control.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { ask } from '../helpers/exporter.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Values that are hidden: no output may show them. */
const HIDDEN = {
  value: 'hush-value',
  nested: 'hush-nested',
  body: 'hush-body',
  spaced: 'hush with spaces',
  number: '48151623',
  cron: 'hush-cron',
  exec: 'hush-exec',
  login: 'hush-login',
  env: 'hush-env',
  alarm: 'hush-alarm',
} as const
/** Values that only those with the right to payloads may see. */
const PAYLOAD = {
  value: 'freight-value',
  error: 'freight-error',
  command: 'freight-command',
  pause: 'freight-pause',
} as const

function assertHides(text: string, what: string, values: Readonly<Record<string, string>> = HIDDEN): void {
  for (const [name, value] of Object.entries(values)) {
    const at = text.indexOf(value)
    assert.equal(at, -1, `${what} says ${name}: ${text.slice(Math.max(0, at - 200), at + 60)}`)
  }
}

const KWARGS = JSON.stringify({
  password: HIDDEN.nested,
  deep: [{ Customer: { id: Number(HIDDEN.number) } }],
})
const VARS = {
  password: HIDDEN.value,
  CUSTOMER: HIDDEN.spaced,
  kwargs: KWARGS,
  args: '[]',
  to: PAYLOAD.value,
}
const BODY = JSON.stringify({ password: HIDDEN.body })

/** Prints and throws what it was given: with its key, alone, quoted and in JSON. */
const HANDLER = `
export default (env, task) => {
  const { password, deep } = JSON.parse(env.kwargs)
  const body = JSON.parse(task.body ? task.body.toString() : '{}')
  console.log('the password=' + env.password + ' customer="' + env.CUSTOMER + '"')
  const said = [env.password, env.CUSTOMER, password, deep[0].Customer.id, body.password, JSON.stringify(env), '${PAYLOAD.error}']
  if (env.dies) setImmediate(() => { throw new Error(said.join(' ')) })
  if (env.retries) return { retry: true, reason: said.join(' ') }
  if (env.dies) return new Promise(() => {})
  throw Object.assign(new Error('login failed for ' + said.join(' ')), { name: 'Login' + env.password })
}`

const COMMAND = `/bin/true ${PAYLOAD.command} --password=${HIDDEN.cron}`

async function startHiding(spool: string, ini: Readonly<Record<string, string | readonly string[]>> = {}) {
  const home = dirname(spool)
  drop(spool, 'fails', packet(VARS, BODY))
  drop(spool, 'dies', packet({ ...VARS, dies: 'yes' }, BODY))
  drop(spool, 'waits', packet(VARS, BODY), 4_000_000_000)
  drop(spool, 'named', packet({ ...VARS, task: 'send' }, BODY), 4_000_000_000)
  return startDaemon({
    spool,
    handler: HANDLER,
    ini: {
      'spooler-hide': 'password,customer',
      'spooler-max-attempts': '2',
      'spooler-retry-delay': '1h',
      'spooler-exec': `/bin/true --password=${HIDDEN.exec}`,
      cron: `0 0 1 1 * ${COMMAND}`,
      env: `TOKEN=${HIDDEN.env}`,
      'spooler-alarm': `url=http://127.0.0.1:9/${HIDDEN.alarm},max-due=1000`,
      'spooler-http-insecure': 'true',
      'spooler-control': [`${join(home, 'view.sock')},role=viewer`, join(home, 'act.sock')],
      stats: join(home, 'stats.sock'),
      'spooler-metrics': '127.0.0.1:0',
      'stats-push': `file:path=${join(home, 'pushed')},freq=1`,
      ...ini,
    },
  })
}

/** Returns everything that a socket sends. */
const readSocket = (path: string) =>
  new Promise<string>((resolve, reject) => {
    let text = ''
    const socket = connect(path)
    socket.on('data', data => (text += data))
    socket.once('end', () => resolve(text))
    socket.once('error', reject)
  })

describe('a hidden value', () => {
  const spool = spoolDirectory()
  const at = (name: string) => join(dirname(spool), name)
  let daemon: Daemon
  const started = startHiding(spool)
  before(async () => {
    daemon = await started
    await daemon.waitFor(/task dies failed, runs again/)
    await daemon.waitFor(/task fails failed, runs again/)
    await until(
      'the task can be run again',
      async () => (await inProcess(['kick', join(spool, 'dies')])).code === 0,
    )
    await until('the task is a dead letter', () => existsSync(join(spool, '.spoold/dead/dies.json')))
    const pair = ['--key', `customer=${HIDDEN.spaced}`, '--key', `to=${PAYLOAD.pause}`]
    for (const key of [pair.slice(0, 2), pair.slice(2)])
      assert.equal((await inProcess(['pause', ...key, spool])).code, 0)
    await daemon.waitFor(new RegExp(PAYLOAD.pause))
  })

  it('is in no line of the log and in no record, dead letter or audit, with or without its key', async () => {
    assertHides(daemon.output, 'the log')
    assert.match(daemon.output, /login failed for \[hidden\] \[hidden\] \[hidden\] \[hidden\] \[hidden\] /)
    assert.match(daemon.output, /paused: tasks with customer=\[hidden\]/)
    const state = join(spool, '.spoold')
    const files = readdirSync(state, { recursive: true }).map(String)
    const isOurs = (path: string) => path.endsWith('.json') || path === 'audit'
    const texts = files.filter(isOurs).map(path => readFileSync(join(state, path), 'utf8'))
    assert.ok(texts.length >= 3, files.join())
    for (const text of texts) assertHides(text, 'a file in .spoold')
  })

  /** The same configuration, with a spool on Redis besides. */
  const withLogin = () => {
    const ini = at('login.ini')
    const more = `spooler-external = redis://u:${HIDDEN.login}@127.0.0.1:9/0/other\n`
    writeFileSync(ini, readFileSync(daemon.iniFile, 'utf8') + more)
    return ini
  }
  const letter = () => join(spool, '.spoold/dead/dies')
  const tasks = () => ['fails', 'waits', 'named'].map(name => join(spool, name))

  for (const { name, flags } of COMMANDS)
    it(`is in nothing that a command prints: ${name}`, async () => {
      const has = (flag: string) => flags.some(([text]) => text.startsWith(flag))
      const bases = [[name, spool], ...[...tasks(), letter()].map(path => [name, path])]
      if (has('--ini')) bases.push([name, '--ini', daemon.iniFile])
      bases.push([name, daemon.iniFile])
      if (['check', 'config', 'unit'].includes(name)) bases.push([name, withLogin()])
      const more = [
        ['--json'],
        ...['--vars', '--all', '--dry-run', '--follow']
          .filter(flag => flag !== '--all' || has('--dry-run'))
          .map(flag => [flag]),
        ...['password', 'kwargs', 'customer', 'error', 'to,password'].flatMap(key => [
          ['--show', key],
          ['--by', key],
        ]),
        ['--key', `password=${HIDDEN.value}`, '--dry-run'],
        ['--key', `customer=${HIDDEN.spaced}`],
        ['--timeout', '0.05s'],
        ['--max-due', '1'],
      ].filter(([flag = '']) => flags.some(([text]) => text.includes(flag)) && flag !== '--follow')
      const needed = { wait: ['--timeout', '0.05s'], move: ['--to', spoolDirectory()] }[name] ?? []
      const forms = bases.flatMap(base => [base, ...more.map(extra => [...base, ...extra])])
      // commands that change something do a dry run
      const isDry = has('--dry-run')
      const shown = forms.map(form => [
        ...form,
        ...needed,
        ...(isDry && !form.includes('--dry-run') ? ['--dry-run'] : []),
      ])
      const harmless =
        name === 'pause' || name === 'resume'
          ? [[name, '--json', '--key', `customer=${HIDDEN.spaced}`, spool]]
          : shown
      let said = ''
      for (const args of harmless) {
        const { stdout, stderr } = await inProcess(args)
        const what = args.join(' ').replaceAll(HIDDEN.value, '…').replaceAll(HIDDEN.spaced, '…')
        assertHides(stdout, `${what}, on stdout,`)
        assertHides(stderr, `${what}, on stderr,`)
        said += stdout + stderr
      }
      assert.notEqual(said, '')
      if (name === 'resume')
        assert.equal((await inProcess(['pause', '--key', `customer=${HIDDEN.spaced}`, spool])).code, 0)
    })

  it('is shown by config --with-secrets alone', async () => {
    const { stdout } = await inProcess(['config', '--with-secrets', withLogin()])
    for (const value of [HIDDEN.login, HIDDEN.env, HIDDEN.alarm, HIDDEN.exec, HIDDEN.cron])
      assert.ok(stdout.includes(value), value)
  })

  it('is in no answer of a control socket, and viewers get no payload either', async () => {
    const sockets = { operator: [at('act.sock'), controlOf(spool)], viewer: [at('view.sock')] }
    const [all = ''] = await askDaemon(at('act.sock'), 'nothing', {}).then(
      () => [],
      (error: Error) => [error.message],
    )
    const verbs = /expected one of (.*), got/.exec(all)?.[1]?.split(', ') ?? []
    assert.ok(verbs.includes('snapshot') && verbs.length > 10, all)
    const argsOf = [{}, { spool }, { spool, tasks: ['waits'] }, { follow: false }, { spool, limit: 9 }]
    for (const [role, paths] of Object.entries(sockets))
      for (const path of paths)
        for (const verb of verbs.filter(each => !['stop', 'reload'].includes(each)))
          for (const args of argsOf) {
            let text = ''
            const event = (said: unknown) => (text += JSON.stringify(said))
            const signal = AbortSignal.timeout(verb === 'wait' ? 100 : 5000)
            const answer = await askDaemon(path, verb, args, { event, signal }).catch(error => String(error))
            text += JSON.stringify(answer)
            assertHides(text, `${verb} of ${role}s`)
            if (role === 'viewer') assertHides(text, `${verb} of viewers`, PAYLOAD)
          }
    const snapshot = JSON.stringify(await askDaemon(at('view.sock'), 'snapshot', {}))
    assert.match(snapshot, /"pair":\["customer","\[hidden\]"\]/)
    assert.match(snapshot, /"command":"true"/)
    const whole = JSON.stringify(await askDaemon(at('act.sock'), 'snapshot', {}))
    for (const value of [PAYLOAD.command, PAYLOAD.pause]) assert.ok(whole.includes(value), value)
  })

  it('is not in the statistics or metrics, and neither is payload, because they know no roles', async () => {
    const port = Number(/metrics enabled on \S*:(\d+)/.exec(daemon.output)?.[1])
    const pushed = await until('statistics are pushed', () => readFileSync(at('pushed'), 'utf8'))
    const texts = [await readSocket(at('stats.sock')), (await ask(port, '/metrics')).text, pushed]
    for (const text of texts) {
      assert.ok(text.length > 100)
      assertHides(text, 'the statistics or metrics')
      assertHides(text, 'the statistics or metrics', PAYLOAD)
    }
    assert.match(texts[0] ?? '', /"command":"true"/)
  })

  it('is hidden in what was written before spooler-hide was set', async () => {
    const old = spoolDirectory()
    const task = packet({ ...VARS, n: '1' }, BODY)
    drop(old, 'task', task)
    const daemon = await startDaemon({ spool: old, handler: HANDLER, ini: { 'spooler-max-attempts': '1' } })
    const dead = join(old, '.spoold/dead/task')
    await until('the task is buried', () => existsSync(`${dead}.json`))
    assert.equal((await inProcess(['pause', '--key', `customer=${HIDDEN.spaced}`, old])).code, 0)
    assert.ok((await inProcess(['logs', old])).stdout.includes(HIDDEN.value))
    writeFileSync(
      daemon.iniFile,
      `${readFileSync(daemon.iniFile, 'utf8')}\nspooler-hide = password,customer\n`,
    )
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/the spoolers are reloaded/)
    for (const args of [
      ['show', dead],
      ['show', '--json', dead],
      ['ls', '--json', '--vars', old],
      ['ls', '--by', 'error', old],
      ['wait', '--timeout', '1s', dead],
      ['wait', '--json', join(old, 'task')],
      ['status', '--json', old],
      ['fsck', old],
      ['logs', old],
    ]) {
      const { stdout, stderr } = await inProcess(args)
      const { number: _number, nested: _nested, body: _body, ...byKey } = HIDDEN
      const values = ['show', 'ls'].includes(args[0] ?? '')
        ? { ...byKey, nested: HIDDEN.nested }
        : { spaced: `customer="${HIDDEN.spaced}` }
      assertHides(`${stdout}${stderr}`, args.join(' '), values)
    }
  })
})
