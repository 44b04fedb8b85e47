import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { appendFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { spoold } from '../helpers/cli.js'
import { TestProcess } from '../helpers/process.js'
import { virtualenv } from '../helpers/python.js'
import { type Requirement, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'
import { receiver, reported } from './contrib-reported.js'
import { pythonEnv } from './named-host.js'
import { Snippets } from './python-snippets.js'

/** Sentry's own SDK, with a transport that keeps what it would send. */
const TRANSPORT = `
import sentry_sdk
from sentry_sdk.transport import Transport
class Keeps(Transport):
    def __init__(self, options=None): super().__init__(options); self.kept = []
    def capture_event(self, event): self.kept.append(event)
    def capture_envelope(self, envelope):
        for item in envelope.items:
            event = item.get_event() or item.get_transaction_event()
            if event is not None: self.kept.append(event)
    def flush(self, timeout, callback=None): pass
    def kill(self): pass
`

const PRELUDE = `
import asyncio
${TRANSPORT}
from spoold import AbortException, RetryException, Tasks
from spoold.contrib.sentry import SpooldIntegration
from spoold.testing import fake
from sentry_sdk.integrations.logging import LoggingIntegration
def started(send_retries=False, others=(), **options):
    keeps = Keeps()
    sentry_sdk.init(dsn='http://key@127.0.0.1:1/1', transport=keeps, traces_sample_rate=1.0, integrations=[SpooldIntegration(send_retries), *others], **options)
    return keeps.kept
def errors(kept): return [each for each in kept if each.get('type') != 'transaction']
def transactions(kept): return [each for each in kept if each.get('type') == 'transaction']
tasks = Tasks(namespace='shop')
`

const SNIPPETS: Readonly<Record<string, string>> = {
  'reports the death of a process at the last run, and with send_retries also before another run': `
import spoold.run as run
tasks.add(lambda what: 0, 'eats', max_retries=2)
packet = {b'task': b'shop:eats', b'args': b'["all"]'}
for send_retries, expected in ((False, [3]), (True, [2, 3])):
    kept = started(send_retries)
    run.begin(packet, 2).died('its process was killed by SIGKILL', time.time() + 3)
    run.begin(packet, 3).died('its process was killed by SIGKILL', None)
    found = errors(kept)
    assert [int(each['tags']['spoold.attempt']) for each in found] == expected, found
    value = found[-1]['exception']['values'][-1]
    assert (value['type'], value['value']) == ('WorkerDied', 'its process was killed by SIGKILL') and found[-1]['transaction'] == 'eats', found
    assert list(found[-1]['contexts']['spoold']['task_args']) == ['all'] and transactions(kept) == []`,
  'continues the trace of the scheduling code in each task, even beside other coroutines': `
kept = started()
@tasks.task(name='co')
async def co(i): await asyncio.sleep(0.001 * i)
jobs = []
import spoold.run as run
place = spool(); tasks.bind(spooler=place)
for i in range(3):
    with sentry_sdk.start_transaction(op='http.server', name='view %d' % i): jobs.append(tasks.schedule(co, i))
async def main():
    packets = [{key.encode(): value.encode() for key, value in each.items()} for each in stored(place)]
    await asyncio.gather(*(run.begin(each, 1).perform_async() for each in packets))
asyncio.run(main())
traces = {each['transaction']: each['contexts']['trace']['trace_id'] for each in transactions(kept) if each['transaction'] != 'co'}
assert len(set(traces.values())) == 3 and all('sentry-trace' in job.headers for job in jobs)
assert sorted(traces.values()) == sorted(each['contexts']['trace']['trace_id'] for each in transactions(kept) if each['transaction'] == 'co')`,
  'reports a failure with its traceback from the task on, the breadcrumbs of its run, and the job': `
kept = started()
def inner(): raise ValueError('no')
@tasks.task(name='sell', queue='mail')
def sell(what, pin=None):
    sentry_sdk.add_breadcrumb(message='selling')
    inner()
@tasks.task(name='calm')
def calm(): sentry_sdk.add_breadcrumb(message='calm')
with fake(tasks) as kit:
    tasks.schedule(calm); job = tasks.schedule(sell, 'tea', pin=1)
    sentry_sdk.add_breadcrumb(message='of somebody else')
    kit.drain()
event, = errors(kept)
value = event['exception']['values'][-1]
assert value['type'] == 'ValueError' and [each['function'] for each in value['stacktrace']['frames']] == ['sell', 'inner'], value
crumbs = event['breadcrumbs']['values'] if isinstance(event['breadcrumbs'], dict) else event['breadcrumbs']
assert [each['message'] for each in crumbs] == ['selling'], crumbs
shown = event['contexts']['spoold']
assert shown['id'] == str(job.id) and shown['task_name'] == 'sell' and list(shown['task_args']) == ['tea'] and shown['task_kwargs'] == {'pin': 1}, shown
assert {name: str(value) for name, value in event['tags'].items()} == {'spoold.id': str(job.id), 'spoold.task_name': 'sell', 'spoold.queue': 'mail', 'spoold.attempt': '1', 'spoold.namespace': 'shop'}, event['tags']
assert event['transaction'] == 'sell'
assert [(each['transaction'], each['contexts']['trace']['status'], each['contexts']['trace']['op']) for each in transactions(kept)] == [
    ('calm', 'ok', 'queue.task.spoold'), ('sell', 'internal_error', 'queue.task.spoold')], transactions(kept)`,
  'keeps the failure of a task even if its report cannot be sent': `
kept = started()
def refuses(sent):
    if isinstance(sent, dict) or sent.get_event() is not None: raise OSError('no Sentry')
sentry_sdk.Hub.current.client.transport.capture_event = sentry_sdk.Hub.current.client.transport.capture_envelope = refuses
@tasks.task(name='sell', max_retries=2)
def sell(): raise AbortException('sold out')
with fake(tasks) as kit:
    tasks.schedule(sell)
    assert [repr(each.error) for each in kit.drain()] == ["AbortException('sold out')"], kit
    assert kit.waiting() == []`,
  'reports the last run, or that of an abort, with its cause, and with send_retries each failed run': `
@tasks.task(name='flaky', max_retries=2)
def flaky(): raise KeyError('again')
@tasks.task(name='aborts', max_retries=2)
def aborts():
    try: 1 / 0
    except ZeroDivisionError as error: raise AbortException('no use') from error
for send_retries, expected in ((False, ['KeyError 3', 'AbortException 1']), (True, ['KeyError 1', 'AbortException 1', 'KeyError 2', 'KeyError 3'])):
    kept = started(send_retries, [LoggingIntegration()], default_integrations=False)
    logging.getLogger().handlers[:] = [logging.NullHandler()]  # the records of the library are no second event
    with fake(tasks) as kit:
        tasks.schedule(flaky); tasks.schedule(aborts); kit.drain(future=True)
    seen = ['%s %s' % (each['exception']['values'][-1]['type'], each['tags']['spoold.attempt']) for each in errors(kept)]
    assert sorted(seen) == sorted(expected), seen
    abort = next(each for each in errors(kept) if 'Abort' in each['exception']['values'][-1]['type'])
    assert [each['type'] for each in abort['exception']['values']] == ['ZeroDivisionError', 'AbortException']`,
  'lets tasks run as ever if the client lacks the integration': `
sentry_sdk.init()
tasks.add(lambda: 7, 'seven'); tasks.add(lambda: 1 / 0, 'wrong')
with fake(tasks) as kit:
    tasks.schedule('seven'); tasks.schedule('wrong')
    seven, wrong = kit.drain()
    assert seven.value == 7 and isinstance(wrong.error, ZeroDivisionError), wrong`,
}

const VERSIONS: ReadonlyArray<readonly [name: string, need: Requirement, venv: string]> = [
  ['sentry-sdk 2', 'venv:contrib', 'contrib'],
  ['sentry-sdk 1.9', 'venv:contrib-oldest', 'contrib-oldest'],
]
for (const [name, need, venv] of VERSIONS)
  describe(`${name}, in the process`, { skip: skipUnless(need) }, () => {
    const python = new Snippets(PRELUDE, join(virtualenv(venv), 'bin/python'))
    for (const [title, code] of Object.entries(SNIPPETS)) python.it(title, code)
  })

describe('Sentry in a daemon', { skip: skipUnless('venv:contrib') }, () => {
  it('hides the keys of spooler-hide, in variables too, and sends what waits before the interpreter ends', async () => {
    const spool = spoolDirectory()
    const directory = dirname(spool)
    const file = join(directory, 'shop.py')
    writeFileSync(
      file,
      `import json, os
${TRANSPORT}
class Late(Keeps):
    def flush(self, timeout, callback=None):
        with open(os.environ['JOURNAL'], 'w') as file: json.dump(self.kept, file, default=str)
from spoold import Tasks
from spoold.contrib.sentry import SpooldIntegration
tasks = Tasks()
if 'JOURNAL' in os.environ:
    sentry_sdk.init(dsn='http://key@127.0.0.1:1/1', transport=Late(), default_integrations=False, integrations=[SpooldIntegration()])
@tasks.task(name='pay')
def pay(amount, card): raise ValueError('declined')
`,
    )
    const python = join(virtualenv('contrib'), 'bin/python')
    const code = `import sys; sys.path.insert(0, ${JSON.stringify(directory)}); import shop; shop.tasks.schedule('pay', 5, card='4711-0815')`
    execFileSync(python, ['-c', code], { env: { ...process.env, ...pythonEnv(spool) } })
    const journal = join(directory, 'journal')
    const words = [
      '--drain',
      '--spooler',
      spool,
      '--python',
      python,
      '--import',
      file,
      '--spooler-hide',
      'card',
    ]
    const { code: exit } = await spoold(words, { env: { JOURNAL: journal, PYTHONDONTWRITEBYTECODE: '1' } })
    assert.equal(exit, 3)
    const text = readFileSync(journal, 'utf8')
    const [event] = JSON.parse(text)
    assert.deepEqual(event.contexts.spoold.task_kwargs, { card: '[hidden]' })
    assert.equal(event.exception.values[0].stacktrace.frames[0].vars.card, '[hidden]')
    assert.doesNotMatch(text, /4711/)
  })

  it('gets a failure as a log record if the integration is missing and nobody has set up logging', async () => {
    const spool = spoolDirectory()
    const file = join(dirname(spool), 'shop.py')
    const journal = join(dirname(spool), 'journal')
    writeFileSync(
      file,
      `${TRANSPORT}
class Writes(Keeps):
    def capture_envelope(self, envelope):
        with open(${JSON.stringify(journal)}, 'a') as file: print(envelope.get_event()['logger'], file=file)
from spoold import Tasks
tasks = Tasks(spooler=${JSON.stringify(spool)})
sentry_sdk.init(dsn='http://key@127.0.0.1:1/1', transport=Writes())
@tasks.task(name='pay')
def pay(): raise ValueError('declined')
`,
    )
    const python = join(virtualenv('contrib'), 'bin/python')
    const code = "import shop; shop.tasks.schedule('pay')"
    execFileSync(python, ['-c', code], { cwd: dirname(file), env: { ...process.env, ...pythonEnv() } })
    const {
      code: exit,
      stdout,
      stderr,
    } = await spoold(['--drain', '--spooler', spool, '--python', python, '--import', file])
    assert.equal(exit, 3, stderr)
    assert.equal(readFileSync(journal, 'utf8'), 'spoold.job\n')
    assert.equal(`${stdout}${stderr}`.match(/ValueError: declined/g)?.length, 1, stderr) // nothing prints it besides
  })
})

describe('the Sentry example', { skip: skipUnless('venv:contrib') }, () => {
  it('reports its failure and its transaction, without the hidden card', async () => {
    const { code, output, requests } = await reported('sentry', 'contrib', place => ({
      SENTRY_DSN: `http://key@${place}/1`,
    }))
    assert.equal(code, 3, output)
    const texts = requests.map(({ body }) => gunzipSync(body).toString())
    const event = texts.find(text => text.includes('the card of order 17 was declined'))
    assert.ok(event?.includes('[hidden]'), event)
    assert.doesNotMatch(texts.join(''), /"card": *"4111"/)
    assert.ok(texts.some(text => text.includes('queue.task.spoold')))
  })
})

/** An event that Sentry gets, as far as the test reads it. */
interface Event {
  readonly type?: string
  readonly transaction: string
  readonly tags: Readonly<Record<string, string>>
  readonly exception: {
    readonly values: ReadonlyArray<{
      readonly value: string
      readonly stacktrace: { readonly frames: ReadonlyArray<{ readonly function: string }> }
    }>
  }
  readonly contexts: {
    readonly trace: { readonly trace_id: string; readonly op: string; readonly status: string }
    readonly spoold: { readonly task_kwargs: object }
  }
}

/** Returns the events of an envelope, each a line of JSON after the line of its kind. */
const eventsIn = (envelope: string): Event[] =>
  envelope
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line))
    .filter(({ platform }) => platform === 'python')

const INIT = `
import sentry_sdk
from spoold.contrib.sentry import SpooldIntegration
sentry_sdk.init(integrations=[SpooldIntegration()], traces_sample_rate=1.0)
`

/** An example that reports to Sentry, with a view that schedules a task, which fails. */
interface Site {
  /** What the test adds to its files. */
  readonly more: Readonly<Record<string, string>>
  /** The application, for WSGI. */
  readonly application: string
}

const SITES: Readonly<Record<string, Site>> = {
  django: {
    more: {
      'mysite/settings.py': `ALLOWED_HOSTS = ['shop']\n${INIT}`,
      'mysite/urls.py': `
from django.http import HttpResponse
from spoold.contrib.django import spoold
def fail(request):
    spoold.schedule('polls:fails', 7, card='47' '11-0815')
    return HttpResponse()
urlpatterns.append(path('fail', fail))
`,
      'polls/tasks.py': `
@tasks.task(name='polls:fails')
def fails(order, card): raise ValueError('no order %d' % order)
`,
    },
    application: 'from django.core.wsgi import get_wsgi_application; app = get_wsgi_application()',
  },
  flask: {
    more: {
      'shop.py': `${INIT}
@spoold.task(name='fails')
def fails(order, card): raise ValueError('no order %d' % order)
@app.get('/fail')
def fail():
    spoold.schedule(fails, 7, card='47' '11-0815')
    return ''
`,
    },
    application: 'from shop import app',
  },
}

describe('Sentry in a service', { skip: skipUnless('venv:contrib') }, () => {
  const python = join(virtualenv('contrib'), 'bin/python')
  for (const [name, { more, application }] of Object.entries(SITES))
    it(`gets the failure of a ${name} task once, in the trace of its request, and all events before the end`, async () => {
      const { place, requests } = await receiver()
      const directory = join(workspace(), name)
      cpSync(join(ROOT, 'spool-examples', name), directory, { recursive: true })
      mkdirSync(join(directory, 'spool'), { recursive: true })
      for (const [file, text] of Object.entries(more)) appendFileSync(join(directory, file), text)
      const ini = join(directory, 'app.ini')
      appendFileSync(ini, `spooler-hide = card\nvirtualenv = ${virtualenv('contrib')}\n`)
      const env = {
        ...pythonEnv(),
        DJANGO_SETTINGS_MODULE: 'mysite.settings',
        SENTRY_DSN: `http://key@${place}/1`,
      }

      const visit = `${application}
from wsgiref.util import setup_testing_defaults
environ = {'PATH_INFO': '/fail', 'HTTP_HOST': 'shop'}
setup_testing_defaults(environ)
answer = app(environ, lambda status, headers: print(status))
list(answer); answer.close()`
      const web = new TestProcess(python, ['-c', visit], { cwd: directory, env })
      assert.equal(await web.code(), 0, web.output)
      assert.match(web.output, /^200 OK$/m)

      const events = () => requests.flatMap(({ body }) => eventsIn(gunzipSync(body).toString()))
      const service = new TestProcess(process.execPath, [BIN, ini], { cwd: '/', env })
      const failed = await until('the failure is reported while the daemon runs', () =>
        events().find(each => each.exception !== undefined),
      )
      service.child.kill('SIGTERM')
      assert.equal(await service.code(), 0, service.output)

      const all = events()
      assert.equal(all.filter(each => each.exception !== undefined).length, 1)
      const [value] = failed.exception.values
      assert.deepEqual(
        [value?.value, value?.stacktrace.frames.map(each => each.function)],
        ['no order 7', ['fails']],
      )
      assert.deepEqual(failed.contexts.spoold.task_kwargs, { card: '[hidden]' })
      const transactions = all.filter(each => each.type === 'transaction')
      assert.deepEqual(
        transactions.map(each => [each.contexts.trace.op, each.contexts.trace.trace_id]),
        [
          ['http.server', failed.contexts.trace.trace_id],
          ['queue.task.spoold', failed.contexts.trace.trace_id],
        ],
      )
      assert.doesNotMatch(JSON.stringify(all), /4711/)
    })
})
