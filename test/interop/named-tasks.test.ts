import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { readJournal } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { pythonEnv, runPython } from '../hosts/named-host.js'

/** What both the web application and uWSGI load. */
const TASKS = `
import datetime
from spoold import AbortException, RetryException, Tasks, signals
tasks = Tasks()
def journal(line): print(line)
@tasks.task(name='add', max_retries=2)
def add(a, b): journal('added %s' % (a + b))
@tasks.task(name='coroutine')
async def coroutine(): journal('coroutine')
@tasks.task(name='fails')
def fails(): raise KeyError('it fails')
@tasks.task(name='aborts', max_retries=5)
def aborts(): raise AbortException('no such customer')
@tasks.task(name='later', max_retries=5)
def later():
    journal('later')
    raise RetryException('later', at=datetime.datetime(2033, 5, 18, 3, 33, 20))
`

describe('named tasks of Python under a real uWSGI', () => {
  for (const uwsgi of UWSGIS)
    it(`run beside a dictionary handler, which gets all other packets, in ${uwsgi.title}`, {
      skip: skipUnless(uwsgi.needs),
    }, async () => {
      const spool = spoolDirectory()
      const program = `${TASKS}
for name in ['coroutine', 'fails', 'aborts', 'later']: tasks.schedule(name)
tasks.schedule(add, 1, b=2)
tasks.schedule(add, 'x' * 70000, 'y')
`
      runPython(['-c', program], pythonEnv(spool))
      drop(spool, 'uwsgi_spoolfile_on_a', packet({ to: 'joe' }))
      drop(spool, 'uwsgi_spoolfile_on_b', packet({ task: 'not-mine', args: '[]' }))
      const handler = `${TASKS.replace('def journal(line): print(line)', '')}
import time
from spoold import attach_uwsgi
@signals.job_schedule_retry.connect
def slow(namespace, job, err, **kwargs): time.sleep(1.1)
@signals.job_failed.connect
def failed(namespace, job, err, **kwargs): journal('failed ' + job.task_name)
def spooler(env):
    journal('dictionary ' + env['spooler_task_name'].decode())
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
attach_uwsgi()
attach_uwsgi()
`
      startUwsgi({ uwsgi, spool, handler, env: pythonEnv() })
      const journal = () => readJournal(dirname(spool)).map(line => line.replace(/x{70000}/, 'x'))
      await until('all tasks have run', () => journal().length === 8 && leftIn(spool).length === 1)
      assert.deepEqual(journal().sort(), [
        'added 3',
        'added xy',
        'coroutine',
        'dictionary uwsgi_spoolfile_on_a',
        'dictionary uwsgi_spoolfile_on_b',
        'failed aborts',
        'failed fails',
        'later',
      ])
      const [waiting = ''] = leftIn(spool)
      assert.equal(statSync(join(spool, waiting)).mtimeMs / 1000, 2_000_000_000)
      const dead = join(spool, '.spoold/dead')
      await until(
        'both dead letters have their reasons',
        () => existsSync(dead) && readdirSync(dead).length === 4,
      )
      const reasons = readdirSync(dead)
        .filter(name => name.endsWith('.json'))
        .map(name => JSON.parse(readFileSync(join(dead, name), 'utf8')).reason)
      assert.deepEqual(reasons.sort(), ['asked', 'attempts'])
    })
})
