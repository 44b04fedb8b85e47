import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { enqueue } from '#src/index.js'
import { spoold } from '../helpers/cli.js'
import type { Daemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'
import { startHost } from './host-daemon.js'
import { schedule } from './named-host.js'

const TASKS = `
import contextlib, contextvars, logging
from datetime import datetime, timedelta, timezone
from spoold import AbortException, JobFilter, RetryException, Tasks, current_job, signals

root = logging.getLogger()
root.setLevel(logging.INFO)
printed = logging.StreamHandler()
printed.setFormatter(logging.Formatter('LOGGED %(message)s'))
class Elsewhere(logging.Handler):
    def emit(self, record):
        kind = '' if record.exc_info is None else ' ' + record.exc_info[0].__name__
        journal('%s: record %s %s %s%s' % (record.task_name, record.name, record.levelname, record.getMessage().split(' after')[0], kind))
elsewhere = Elsewhere()
elsewhere.addFilter(JobFilter())
root.addHandler(printed)
root.addHandler(elsewhere)

tasks, inner = Tasks(namespace='shop'), Tasks(max_retries=1)
tasks.use(inner)
where = contextvars.ContextVar('where', default='nowhere')
def layer(name):
    @contextlib.contextmanager
    def around(job):
        if job.task_args == ('refused by ' + name,): raise KeyError(name)
        journal('%s: enter %s' % (job.task_name, name))
        where.set(name)
        try: yield
        finally: journal('%s: leave %s' % (job.task_name, name))
    return around
tasks.middleware(run=layer('outer'))
inner.middleware(run=layer('inner'))

@signals.job_started.connect_via('shop')
def started(namespace, job, **kwargs):
    if job.task_name in ('times', 'late'):
        waited = abs((datetime.now(timezone.utc) - job.at).total_seconds())
        journal('%s: waited %.1f, attempt %d at %.0f' % (job.task_name, waited, job.attempt, job.at.timestamp()))

@signals.job_schedule_retry.connect_via('shop')
def retried(namespace, job, err, **kwargs):
    wait = (job.at - datetime.now(timezone.utc)).total_seconds()
    journal('%s: again in %.0f s at %.0f' % (job.task_name, wait, job.at.timestamp()))

@inner.task(name='layers')
def layers(*args):
    journal('layers: in %s, %r %s' % (where.get(), current_job().task_args, current_job().status.name))

@inner.task(name='coroutine')
async def coroutine(): journal('coroutine: in %s, %s' % (where.get(), current_job().task_name))

@tasks.task(name='times', max_retries=1)
def times():
    if current_job().attempt == 1: raise ValueError('no')

@tasks.task(name='late')
def late(at): journal('late: %s' % (current_job().at.isoformat() == at))

@tasks.task(name='login', max_retries=1)
def login(password): journal('login: %r' % (current_job().fields()['task_args'],))

@tasks.task(name='aborts', max_retries=3)
def aborts():
    try: 1 / 0
    except Exception as error: raise AbortException('no use') from error

@tasks.task(name='again')
def again():
    try: {}['key']
    except KeyError: raise RetryException('once more')

@tasks.task(name='says')
def says():
    logging.getLogger('app').info('from the task')
`

describe('runs of tasks in Python', { skip: skipUnless('python3') }, () => {
  let daemon: Daemon
  const spool = spoolDirectory()
  const linesOf = (task: string) =>
    daemon
      .journal()
      .filter(line => line.startsWith(`${task}: `))
      .map(line => line.slice(task.length + 2))
  /** Returns the lines of a task without those of middleware and of log records. */
  const ownLinesOf = (task: string) => linesOf(task).filter(line => !/^(record|enter|leave) /.test(line))
  const enqueueTask = (task: string, args: unknown[] = [], options: { at?: number } = {}) =>
    enqueue({ task: `shop:${task}`, args: JSON.stringify(args) }, { spooler: spool, ...options })
  const ended = (task: string, lines: number) =>
    until(`${task} has ended`, () => linesOf(task).length >= lines)
  const letterOf = async (task: string) => {
    const { stdout } = await spoold(['ls', '--json', '--state', 'dead', spool])
    const rows: Array<{ name: string; task?: { name: string } }> = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    const name = rows.find(row => row.task?.name === `shop:${task}`)?.name ?? ''
    return JSON.parse(readFileSync(join(spool, `${name}.json`), 'utf8'))
  }

  const starting = startHost('python', {
    spool,
    handler: TASKS,
    ini: { 'spooler-retry-delay': '2s', 'spooler-hide': 'password' },
  })

  before(async () => {
    daemon = await starting
  })

  it('are inside middleware, the outermost registry first, in the context of the run', async () => {
    await enqueueTask('layers', [5])
    await enqueueTask('coroutine')
    await ended('layers', 7)
    await ended('coroutine', 7)
    const around = (line: string) => ['enter outer', 'enter inner', line, 'leave inner', 'leave outer']
    assert.deepEqual(
      linesOf('layers').filter(line => !line.startsWith('record')),
      around('in inner, (5,) RUNNING'),
    )
    assert.deepEqual(
      linesOf('coroutine').filter(line => !line.startsWith('record')),
      around('in inner, coroutine'),
    )
  })

  it('fail by what middleware raises, and the task is not called', async () => {
    const before = linesOf('layers').length
    await enqueueTask('layers', ['refused by inner'])
    await ended('layers', before + 5)
    const lines = linesOf('layers').slice(before + 1)
    assert.deepEqual(lines.slice(0, 2), ['enter outer', 'leave outer'])
    assert.match(lines[2] ?? '', /^again in \d+ s /)
    assert.match(
      lines[3] ?? '',
      /^record spoold.job WARNING Error during execution 1\/2 of Job <layers WAITING \S+> KeyError$/,
    )
  })

  it('have in job.at when they were to start, and receivers know it before a retry', async () => {
    await enqueueTask('times')
    await until('the task has run twice', () => ownLinesOf('times').length === 3)
    const [first = '', again = '', second = ''] = ownLinesOf('times')
    assert.match(first, /^waited \d\.\d, attempt 1 at /)
    assert.match(again, /^again in [234] s at /) // spooler-retry-delay = 2s
    assert.match(second, /^waited \d\.\d, attempt 2 at /)
    const secondsOf = (line: string) => Number(line.split(' at ')[1])
    const late = secondsOf(second) - secondsOf(again)
    assert.ok(Math.abs(late) <= 1, `it was to run ${late} s after what was announced`)
    const at = Math.ceil(Date.now() / 1000) + 1
    await enqueueTask('late', [new Date(at * 1000).toISOString().replace('.000Z', '+00:00')], { at })
    await until('the task has run', () => ownLinesOf('late').length === 2)
    assert.equal(ownLinesOf('late')[1], 'True')
  })

  it('know from job.at how long the task has waited in the queue', async () => {
    const name = 'uwsgi_spoolfile_on_host_1_1_1_1_1'
    drop(spool, name, packet({ task: 'shop:times', args: '[]' }), Date.now() / 1000 - 7.5)
    await until('the task has begun', () =>
      linesOf('times').some(line => /^waited [78]\.\d, attempt 1 /.test(line)),
    )
  })

  it('hide the keys of spooler-hide in the fields of the job', async () => {
    await enqueueTask('login', ['hunter2'])
    await until('the task has run', () => ownLinesOf('login').length === 1)
    assert.deepEqual(ownLinesOf('login'), ["('[hidden]',)"])
  })

  it('leave what was raised, with its cause, in the dead letter, at an abort and at the last retry', async () => {
    await enqueueTask('aborts')
    await enqueueTask('again')
    await until('both tasks are dead', async () => {
      const { stdout } = await spoold(['ls', '--json', '--state', 'dead', spool])
      return stdout.includes('shop:aborts') && stdout.includes('shop:again')
    })
    const aborted = await letterOf('aborts')
    assert.match(
      aborted.detail,
      /^no use\nTraceback[\s\S]*ZeroDivisionError: [\s\S]*in aborts\n[\s\S]*AbortException: no use$/,
    )
    assert.doesNotMatch(aborted.detail, /spoold_host|spoold\/run\.py|contextlib/)
    const again = await letterOf('again')
    assert.match(again.lastError ?? JSON.stringify(again), /once more\nTraceback[\s\S]*KeyError: 'key'/)
  })

  it('send log records to the handlers of the application, and print no failure twice', async () => {
    await enqueueTask('says')
    await ended('says', 5)
    const records = linesOf('says').filter(line => line.startsWith('record'))
    const id = /Job <says RUNNING (\S+)>/.exec(records[0] ?? '')?.[1]
    assert.deepEqual(
      records.map(line => line.replace(/\d+ ms$/, 'N ms')),
      [
        `record spoold.worker INFO Starting execution of Job <says RUNNING ${id}>`,
        'record app INFO from the task',
        `record spoold.job INFO Finished execution of Job <says SUCCEEDED ${id}> in N ms`,
      ],
    )
    await daemon.waitFor(/LOGGED from the task/)
    const failures = linesOf('aborts').filter(line => line.includes('ERROR'))
    assert.match(
      failures.join(),
      /^record spoold.job ERROR Fatal error during execution of Job <aborts FAILED \S+> AbortException$/,
    )
    assert.doesNotMatch(daemon.output, /LOGGED (Fatal|Error during)/)
    assert.equal(daemon.output.match(/ZeroDivisionError: /g)?.length, 1)
  })

  it('find enable-threads and py-call-uwsgi-fork-hooks set in uwsgi.opt', async () => {
    const other = spoolDirectory()
    const threads = await startHost('python', {
      spool: other,
      handler:
        'journal(repr([uwsgi.opt.get(name) for name in ("enable-threads", "py-call-uwsgi-fork-hooks")]))\nuwsgi.spooler = lambda env: uwsgi.SPOOL_OK',
    })
    await until('the code is loaded', () => threads.journal().length > 0)
    assert.deepEqual(threads.journal(), ["[b'true', b'true']"])
  })
})

it('each ini line in docs/python-migration.md has an effect', async () => {
  const page = readFileSync(join(ROOT, 'docs/python-migration.md'), 'utf8')
  const lines = [...page.matchAll(/`([a-z-]+ = [^`]+)`/g)].map(([, line = '']) => line)
  const options = lines.filter(line => !line.includes('(')) // with a parenthesis it is Python
  assert.ok(options.length >= 6, options.join('\n'))
  const directory = workspace()
  mkdirSync(join(directory, 'site1'))
  for (const [i, line] of options.entries()) {
    const ini = join(directory, `${i}.ini`)
    writeFileSync(ini, `[uwsgi]\nspooler = ${directory}/spool\n${line}\n`)
    const { stdout, stderr } = await spoold(['check', ini])
    assert.doesNotMatch(stdout + stderr, /no effect|unknown option/, line)
  }
})

describe('loading tasks in Python', { skip: skipUnless('python3') }, () => {
  it('loads a file once that imports a module that imports it', async () => {
    const spool = spoolDirectory()
    const home = dirname(spool)
    writeFileSync(join(home, 'app.py'), 'from tasks import tasks\n')
    const handler =
      "from spoold import Tasks\ntasks = Tasks()\n@tasks.task(name='hello')\ndef hello(): print('hello from', __name__)\nimport app\n"
    const daemon = await startHost('python', { spool, ini: { pythonpath: home }, handler })
    drop(spool, 'uwsgi_spoolfile_on_x', packet({ task: 'hello', args: '[]' }))
    await daemon.waitFor('hello from tasks')
  })

  it('names once another version of the library that is installed beside the daemon’s', async () => {
    const spool = spoolDirectory()
    const home = join(dirname(spool), 'site')
    mkdirSync(join(home, 'spoold'), { recursive: true })
    writeFileSync(join(home, 'spoold/__init__.py'), "__version__ = '0.0.9'\n")
    const handler = `sys.path.append(${JSON.stringify(home)})\nfrom spoold import Tasks\ntasks = Tasks()\ntasks.add(lambda: 0, 'a')\n`
    const daemon = await startHost('python', { spool, handler })
    await daemon.waitFor(
      /the Python library in \S+\/site is 0\.0\.9, and this daemon uses its own, \d+\.\d+\.\d+: pip install/,
    )
    assert.equal(daemon.output.match(/the Python library in/g)?.length, 1)
  })

  it('lets no handler of logging that raises change an outcome, and logs its exception', async () => {
    const spool = spoolDirectory()
    for (const task of ['fine', 'aborts']) await enqueue({ task, args: '[]' }, { spooler: spool })
    const handler = `
import logging
from spoold import AbortException, Tasks
class Down(logging.Handler):
    def emit(self, record): raise OSError('no log server for ' + record.getMessage().split()[0])
logging.basicConfig(level=logging.INFO, handlers=[Down()])
tasks = Tasks(max_retries=2)
tasks.add(lambda: journal('fine'), 'fine')
@tasks.task(name='aborts')
def aborts(): raise AbortException('no use')
`
    const daemon = await startHost('python', { spool, handler, ini: { drain: true }, isUnready: true })
    await daemon.code()
    assert.deepEqual(daemon.journal(), ['fine'])
    assert.match(daemon.output, /^drained: 1 done, 1 buried$/m)
    for (const first of ['Starting', 'Finished', 'Fatal'])
      assert.match(daemon.output, new RegExp(`^OSError: no log server for ${first}$`, 'm'))
  })

  it('logs no error if an interpreter is no longer needed when it is ready', async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'slow.py')
    const source = `import os, time
from spoold import Tasks
tasks = Tasks()
time.sleep(0.7)
tasks.add(lambda: 0, 'fine')
tasks.add(lambda: os.kill(os.getpid(), 9), 'kills')
`
    writeFileSync(file, source)
    schedule(file, "m.tasks.schedule('fine'); m.tasks.schedule('kills')", spool)
    const { stdout, stderr } = await spoold([
      '--drain',
      '--spooler',
      spool,
      '--python',
      PYTHON,
      '--import',
      file,
    ])
    assert.deepEqual(leftIn(spool), [])
    assert.doesNotMatch(stdout + stderr, /Traceback|BrokenPipe/)
  })
})
