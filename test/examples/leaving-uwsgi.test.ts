import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { movableClock } from '../helpers/clock.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { virtualenv } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { PYPI } from '../helpers/uwsgi.js'
import { BIN, ROOT, workspace } from '../helpers/workspace.js'
import { PYTHON_LIBRARY, programs } from '../hosts/named-host.js'

const TASKS = 200
const AT_ONCE = 16
/** The seconds of a day, and the second of a day at which Django's cron fires. */
const [DAY, CLEANED] = [86_400, 3 * 3600]

/** Posts over a unix socket. @returns the status of the answer */
function post(socketPath: string, path: string, body = ''): Promise<number | undefined> {
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded', Connection: 'close' }
  return new Promise((resolve, reject) => {
    request(
      { agent: false, socketPath, path, method: 'POST', headers: { ...headers, Host: 'localhost' } },
      answer => {
        answer.resume().once('end', () => resolve(answer.statusCode))
      },
    )
      .once('error', reject)
      .end(body)
  })
}

const answers = (socket: string, path: string) => () => post(socket, path).then(Boolean, () => false)

describe('the example of leaving uWSGI', { skip: skipUnless('venv:contrib', 'venv:uwsgi') }, () => {
  const directory = join(workspace(), 'leaving')
  const venv = virtualenv('contrib')
  const packages = (name: string) => join(virtualenv(name), 'lib/python3.11/site-packages')
  const flask = join(directory, 'flask')
  const django = join(directory, 'django')
  const env = {
    PATH: `${programs()}:${process.env.PATH}`,
    PYTHONPATH: PYTHON_LIBRARY,
    PYTHONDONTWRITEBYTECODE: '1',
    SPOOLD_INI: 'after.ini',
  }
  before(() => cpSync(join(ROOT, 'spool-examples/leaving-uwsgi'), directory, { recursive: true }))
  const run = (cwd: string, program: string, ...args: string[]) =>
    new TestProcess(join(venv, 'bin', program), args, { cwd, env, isGroup: true })
  const daemonOf = (cwd: string, env: NodeJS.ProcessEnv = {}) =>
    new TestProcess(process.execPath, [BIN, '--virtualenv', venv, 'after.ini'], { cwd, env })
  async function stop(each: TestProcess): Promise<void> {
    each.child.kill('SIGTERM')
    assert.equal(await each.code(), 0, each.output)
  }

  for (const [name, site, path, receipt] of [
    ['Flask', flask, '/orders', 'a receipt for uwsgi'],
    ['Django', django, '/letters/uwsgi', '2 letters to uwsgi'],
  ] as const)
    it(`before: uWSGI serves the site in ${name}, and its spooler runs the task`, async () => {
      const ini = readFileSync(join(site, 'before.ini'), 'utf8')
      const socket = join(site, 'uwsgi.sock')
      writeFileSync(join(site, 'before.ini'), ini.replace('127.0.0.1:8000', socket).replace('= 4', '= 1'))
      const uwsgi = new TestProcess(PYPI.command, ['--die-on-term', 'before.ini'], {
        cwd: site,
        env: { PYTHONPATH: [PYTHON_LIBRARY, packages('contrib'), packages('uwsgi')].join(':') },
      })
      await until('an answer', answers(socket, '/'))
      assert.equal(await post(socket, path, 'to=uwsgi'), 202, uwsgi.output)
      await uwsgi.waitFor(receipt)
      uwsgi.child.kill('SIGTERM')
      await uwsgi.exited
    })

  it('after: eight gunicorn workers with preload_app enqueue while the daemon reloads, and each task runs once', async () => {
    const socket = join(flask, 'gunicorn.sock')
    const daemon = daemonOf(flask)
    const words = ['--workers', '8', '--preload', '--bind', `unix:${socket}`, '--no-control-socket', 'wsgi']
    const gunicorn = run(flask, 'gunicorn', ...words)
    await daemon.waitFor('spawned')
    await until('an answer', answers(socket, '/'))
    const rest = Array.from({ length: TASKS }, (_, i) => String(i))
    const store = async () => {
      for (let name = rest.pop(); name !== undefined; name = rest.pop()) {
        if (rest.length === TASKS / 2) daemon.child.kill('SIGHUP')
        assert.equal(await post(socket, '/orders', `to=${name}`), 202, gunicorn.output)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, store))
    const receipts = () => [...daemon.output.matchAll(/a receipt for (\d+)/g)].map(([, name]) => Number(name))
    await until('all tasks have run', () => receipts().length >= TASKS)
    await daemon.waitFor('reloaded')
    const raised = ['-m', 'spoold.uwsgi', '-c', 'import uwsgi; uwsgi.signal(0)']
    execFileSync(join(venv, 'bin/python'), raised, { cwd: flask, env: { ...process.env, ...env } })
    await daemon.waitFor('the stock is counted')
    const inOrder = receipts().sort((a, b) => a - b)
    assert.deepEqual(inOrder, [...Array(TASKS).keys()])
    const pids = new Set(
      [...daemon.output.matchAll(/uwsgi_spoolfile_on_\S+?_(\d+)_\d+_\d+_\d+_\d+/g)].map(([, pid]) => pid),
    )
    assert.ok(pids.size > 1, 'several workers stored')
    assert.deepEqual(leftIn(join(flask, 'spool')), [])
    await stop(gunicorn)
    await stop(daemon)
  })

  it("the manual's tests enqueue by a request, run the task by --drain, and leave the site's spool alone", () => {
    const manual = readFileSync(join(ROOT, 'docs/leaving-uwsgi.md'), 'utf8')
    const files = [...manual.matchAll(/^```python file=(\S+)\n(.*?)^```$/gms)]
    assert.deepEqual(
      files.map(([, name]) => name),
      ['conftest.py', 'test_shop.py'],
    )
    for (const [, name = '', text = ''] of files) writeFileSync(join(flask, name), text)
    const code = 'import conftest, test_shop; test_shop.test_order(); print("passed")'
    const { stdout, stderr } = spawnSync(join(venv, 'bin/python'), ['-c', code], {
      cwd: flask,
      env: {
        ...process.env,
        ...env,
        PATH: `${venv}/bin:${env.PATH}`,
        PYTHONPATH: `${PYTHON_LIBRARY}:${flask}`,
      },
      encoding: 'utf8',
    })
    assert.match(stdout, /passed/, stderr)
    assert.doesNotMatch(stderr, /flask\/spool/, 'the spool of the site is left alone')
  })

  it('after: granian and uvicorn serve Django, its commands find uWSGI’s modules, and its cron fires', async () => {
    const clock = movableClock()
    const daemon = daemonOf(django, clock.env)
    const sockets = { granian: join(django, 'granian.sock'), uvicorn: join(django, 'uvicorn.sock') }
    const servers = [
      run(
        django,
        'granian',
        '--interface',
        'wsgi',
        '--workers',
        '1',
        '--uds',
        sockets.granian,
        'mysite.wsgi:application',
      ),
      run(django, 'uvicorn', '--workers', '2', '--uds', sockets.uvicorn, 'mysite.asgi:application'),
    ]
    const python = join(venv, 'bin/python')
    execFileSync(python, ['manage.py', 'check'], { cwd: django, env: { ...process.env, ...env } })
    for (const [name, socket] of Object.entries(sockets)) {
      await until('an answer', answers(socket, '/'))
      assert.equal(await post(socket, `/letters/${name}`), 202)
    }
    await daemon.waitFor('2 letters to granian')
    await daemon.waitFor('2 letters to uvicorn')
    assert.deepEqual(
      readdirSync(join(django, 'spool')).filter(name => !name.startsWith('.')),
      [],
    )
    for (const each of servers) await stop(each)
    clock.jump((DAY + CLEANED - 1 - ((Date.now() / 1000) % DAY)) % DAY)
    await daemon.waitFor('cleaned')
    await stop(daemon)
  })
})
