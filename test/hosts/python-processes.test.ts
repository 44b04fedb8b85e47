import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { python } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from './host-daemon.js'

const NAME = 'uwsgi_spoolfile_on_x'

describe('processes that a Python task starts by multiprocessing', { concurrency: 2 }, () => {
  const POOLS = `
import multiprocessing, pickle
from concurrent.futures import ProcessPoolExecutor
def square(x): return x * x
class Point: pass
def spooler(env):
    for method in ('spawn', 'forkserver', 'fork'):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            journal('%s %d' % (method, pool.submit(square, 3).result()))
        with multiprocessing.get_context(method).Pool(2) as pool:
            journal('%s %s' % (method, pool.map(square, [1, 2])))
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
uwsgi.register_signal(1, '', print)
`
  const SAID = ['spawn', 'forkserver', 'fork'].flatMap(method => [`${method} 9`, `${method} [1, 4]`])
  for (const version of ['3.8', '3.11', '3.13'] as const)
    for (const [how, ini] of Object.entries({
      'a file that is named by its path': {},
      'a module that pythonpath finds': { pythonpath: '%d', import: 'tasks' },
    }))
      it(`run in Python ${version} the functions of ${how}`, {
        skip: skipUnless(`python${version}`),
      }, async () => {
        const spool = spoolDirectory()
        const daemon = await startHost('python', {
          spool,
          handler: POOLS,
          ini: { python: python(version), ...ini },
        })
        drop(spool, NAME)
        await until(`the task is done:\n${daemon.output}`, () => leftIn(spool).length === 0)
        assert.deepEqual(daemon.journal(), SAID)
        assert.doesNotMatch(daemon.output, /Traceback|Error/)
        daemon.child.kill('SIGTERM')
        await daemon.exited
      })

  it('may be terminated by the task when they are forked', { skip: skipUnless('python3') }, async () => {
    const spool = spoolDirectory()
    const handler = `
import multiprocessing
def spooler(env):
    process = multiprocessing.get_context('fork').Process(target=time.sleep, args=(3600,))
    process.start()
    process.terminate() # at once: also before it has begun
    process.join(20)
    journal(str(process.exitcode))
    process.kill()
    process.join()
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler })
    drop(spool, NAME)
    await until(`the task is done:\n${daemon.output}`, () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['-15'])
    daemon.child.kill('SIGTERM')
    await daemon.exited
  })

  it('find the module uwsgi, whose spool raises an error', { skip: skipUnless('python3') }, async () => {
    const spool = spoolDirectory()
    const handler = `
import multiprocessing
def ask(x):
    try: return uwsgi.spool({b'a': b'b'})
    except ValueError as error: return str(error)
def spooler(env):
    with multiprocessing.get_context('spawn').Pool(1) as pool: journal(pool.map(ask, [1])[0])
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler })
    drop(spool, NAME)
    await until(`the task is done:\n${daemon.output}`, () => leftIn(spool).length === 0)
    assert.match(daemon.journal()[0] ?? '', /^a process that a task started cannot speak for it/)
  })
})

describe('a Python file that has more than one name', {
  skip: skipUnless('python3'),
  concurrency: 2,
}, () => {
  const TASKS = `from spoold import Tasks
tasks = Tasks()
@tasks.task(name='send-mail')
def send_mail(to): print('mail to', to)
`
  it('is loaded once, under the name by which others import it', async () => {
    const spool = spoolDirectory()
    const home = dirname(spool)
    const handler = `
import pickle
uwsgi.loads = getattr(uwsgi, 'loads', []) + [__name__]
class Point: pass
def spooler(env):
    from tasks import Point as same
    old = pickle.dumps(Point(), 0).replace(b'tasks', ${JSON.stringify(`${home.replaceAll(/[/.]/g, '_')}_tasks`)}.encode())
    journal('%s %s %s' % (uwsgi.loads, same is Point, type(pickle.loads(old)) is Point))
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler })
    drop(spool, NAME)
    await until(`the task is done:\n${daemon.output}`, () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ["['tasks'] True True"])
  })

  it('has its tasks once, even if it is loaded under two names', async () => {
    const spool = spoolDirectory()
    const home = dirname(spool)
    writeFileSync(join(home, 'json.py'), TASKS) // not importable: another module has its name
    writeFileSync(
      join(home, 'twice.py'),
      `import importlib.util, sys\nspec = importlib.util.spec_from_file_location('mine', ${JSON.stringify(join(home, 'json.py'))})
mine = importlib.util.module_from_spec(spec); sys.modules['mine'] = mine; spec.loader.exec_module(mine)\n`,
    )
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { import: [join(home, 'json.py'), join(home, 'twice.py')] },
    })
    assert.equal((await spoold(['enqueue', '--spooler', spool, 'task=send-mail', 'args=["joe"]'])).code, 0)
    await daemon.waitFor('mail to joe')
  })

  it('keeps its task if a running task registers another function under the same task name', async () => {
    const spool = spoolDirectory()
    const handler = `${TASKS}
@tasks.task(name='late')
def late():
    other = Tasks()
    @other.task(name='send-mail')
    def another(to): print('wrong', to)
    tasks.kept = other
`
    const daemon = await startHost('python', { spool, handler })
    drop(spool, `${NAME}_1`, packet({ task: 'late', args: '[]' }))
    await until('the task is done', () => leftIn(spool).length === 0)
    drop(spool, `${NAME}_2`, packet({ task: 'send-mail', args: '["joe"]' }))
    await daemon.waitFor(/mail to joe/)
    assert.doesNotMatch(daemon.output, /two tasks have the name/)
  })
})
