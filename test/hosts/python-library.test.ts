import { describe } from 'node:test'
import { skipUnless } from '../helpers/requires.js'
import { Snippets } from './python-snippets.js'

describe('registries in Python', { skip: skipUnless('python3') }, () => {
  const python = new Snippets('from spoold import *\nfrom spoold import signals')

  python.it(
    'the place of a queue goes before that of all tasks',
    `
a, b = spool(), spool()
tasks = Tasks(spooler=a, queues={'slow': b})
tasks.add(lambda: 0, name='slow', queue='slow')
tasks.add(lambda: 0, 'fast')
assert tasks.schedule('slow').queue == 'slow'
tasks.schedule('fast')
assert [each['task'] for each in stored(a)] == ['fast'] and [each['task'] for each in stored(b)] == ['slow']
tasks.add(lambda: 0, name='other', queue='other')
raises(DestinationUnknown, 'no spool is known for the queue other (known: slow)', lambda: tasks.schedule('other'))
of_queue = Tasks('mail', spooler=a)
of_queue.add(lambda: 0, 'send')
assert of_queue.schedule('send').queue == 'mail' and len(stored(a)) == 2
`,
  )

  python.it(
    'combine: schedule and batches find the tasks of all, also those that come later',
    `
place = spool()
app, mail, reports = Tasks(spooler=place, namespace='shop'), Tasks(max_retries=3), Tasks(namespace='reports')
app.use(mail.use(reports))
@mail.task(name='send')
def send(to): pass
@reports.task(name='daily')
def daily(): pass
assert app.schedule(send, 'joe').max_retries == 3
app.schedule('send', 'jane'); app.schedule('reports:daily'); mail.schedule(send, 'jack')
batch = Batch()
batch.schedule(daily); batch.schedule('shop:send', 'jim')
assert [job.task_name for job in app.schedule_batch(batch)] == ['daily', 'send']
assert [each['task'] for each in stored(place)] == ['shop:send'] * 2 + ['reports:daily', 'shop:send', 'reports:daily', 'shop:send']
assert app.names == ['send', 'daily'] and mail.namespace == 'shop' and reports.namespace == 'reports'
raises(UnknownTask, 'no task daily is in this registry; it has: daily, send', lambda: app.schedule('daily'))
`,
  )

  python.it(
    'one that two applications share has the name, the place and the middleware of the one that is asked',
    `
seen, a, b = [], spool(), spool()
shared = Tasks()
@shared.task(name='send')
def send(): pass
one, two = Tasks(namespace='one', spooler=a), Tasks(namespace='two', spooler=b)
for app in (one, two):
    app.use(shared)
    app.middleware(schedule=lambda calls, next, app=app: (seen.append(app.namespace), next()))
one.schedule(send); two.schedule(send)
assert [each['task'] for each in stored(a) + stored(b)] == ['one:send', 'two:send'] and seen == ['one', 'two']
shared.schedule(send)  # by itself it belongs to the last one
assert [each['task'] for each in stored(b)] == ['two:send'] * 2
`,
  )

  python.it(
    'two tasks of one name: an error with both places, where they are registered, used, or go to one spool',
    `
place = spool()
one, two, three = Tasks(), Tasks(), Tasks(spooler=place)
for tasks in (one, two): tasks.add(lambda: 0, 'a')
error = raises(ValueError, 'two tasks have the name a: <snippet>:', lambda: three.use(one, two))
assert str(error).count('<snippet>:4') == 2, error
raises(ValueError, 'two tasks have the name a', lambda: three.add(lambda: 0, 'a'))
raises(ValueError, 'a registry cannot use itself', lambda: one.use(three))
four = Tasks(spooler=place)
four.add(lambda: 1, 'a')
raises(ValueError, 'two tasks have the name a', lambda: four.schedule('a'))
five = Tasks(spooler=spool()); five.add(lambda: 1, 'a'); five.schedule('a')
del one, three, tasks, error
four.schedule('a')  # the other registry is gone
`,
  )

  python.it(
    'say later where tasks go, with the syntax of the environment variable, or a dictionary',
    `
a, b = spool(), spool()
for told in ('%s,mail=%s' % (a, b), {'default': a, 'mail': b}):
    tasks = Tasks()
    tasks.add(lambda: 0, 'one'); tasks.add(lambda: 0, 'two', 'mail')
    raises(DestinationUnknown, 'in one of three ways', lambda: tasks.schedule('one'))
    assert tasks.bind(enqueue_to=told, namespace='shop') is tasks
    tasks.schedule('one'); tasks.schedule('two')
assert [each['task'] for each in stored(a)] == ['shop:one'] * 2 and [each['task'] for each in stored(b)] == ['shop:two'] * 2
`,
  )

  python.it(
    'take what Spinach takes: positional arguments, defaults of all four options, any callable',
    `
tasks = Tasks('mail', 3, timedelta(seconds=5), 2)
tasks.add(lambda: 0, 'a', 'other', 4, timedelta(seconds=6), 1)
tasks.add(lambda: 0, 'b')
def told(name):
    task = tasks.get(name)
    return task.queue, task.max_retries, task.periodicity.total_seconds(), task.max_concurrency
assert told('a') == ('other', 4, 6, 1) and told('b') == ('mail', 3, 5, 2)
assert tasks.get('a').periodic['periodicity'] == 6
others = Tasks(spooler=spool())
others.add(max, 'max')
others.add(print, name='print')
assert others.schedule('max', 1, 2).task_args == (1, 2) and others.get('max').func is max
import dataclasses
@dataclasses.dataclass
class Callable:
    number: int
    def __call__(self, a): pass
each = Callable(1)
others.add(each, name='no-hash')
#others.add(each, name='no-hash')
assert others.schedule(each, 1).task_name == 'no-hash'
assert sorted(others.names) == ['max', 'no-hash', 'print']
others.update(tasks)
assert 'a' in others.tasks
`,
  )

  python.it(
    'know a task by what leads to its function: a wrapper, a method, a Task; and by nothing else',
    `
import functools
tasks, others = Tasks(spooler=spool()), Tasks(spooler=spool())
@tasks.task(name='x')
def x(a): return a
assert x(5) == 5 and x.task_name == 'x'
@functools.wraps(x)
def timed(a): return x(a)
class View:
    @tasks.task(name='m')
    def m(self): pass
    def n(self): pass
view = View()
tasks.add(view.n, 'n')
for task in (timed, 'x', tasks.tasks['x'], tasks.get(x)): assert tasks.schedule(task, 1).task_name == 'x'
assert tasks.schedule(view.n).task_name == 'n' and tasks.get(view.m).name == 'm'
others.add(lambda a: 0, 'x')
raises(UnknownTask, 'no task x is in this registry; it has: x. Another registry has it (<snippet>:', lambda: others.schedule(x, 1))
for wrong in (None, object(), b'x', RuntimeError): raises(UnknownTask, 'no task', lambda: tasks.schedule(wrong))
assert tasks.execute('x', 7) == 7 and tasks.execute(x, a=8) == 8
`,
  )

  python.it(
    'a registry that nobody uses is forgotten, but not where its tasks run',
    `
import types
from spoold import tasks as module
def count(): gc.collect(); return len(module.registries())
before = count()
def leave(): Tasks().add(lambda: 0, 'a')
leave()
assert count() == before
sys.modules['uwsgi'] = types.ModuleType('uwsgi')
try: leave()
finally: del sys.modules['uwsgi']
assert count() == before + 1
`,
  )
})

describe('jobs in Python', { skip: skipUnless('python3') }, () => {
  const python = new Snippets('from spoold import *\nfrom spoold import signals')

  python.it(
    'are scheduled from coroutines in threads, as from anywhere',
    `
import asyncio
place = spool()
tasks = Tasks(spooler=place)
tasks.add(lambda number: 0, 'co')
async def main(): return await asyncio.gather(*(asyncio.to_thread(tasks.schedule, 'co', number) for number in range(40)))
jobs = asyncio.run(main())
assert [job.task_args for job in jobs] == [(number,) for number in range(40)] and len({job.id for job in jobs}) == 40
assert sorted(each['id'] for each in stored(place)) == sorted(str(job.id) for job in jobs), stored(place)[0]
`,
  )

  python.it(
    "have Spinach's fields, form and __slots__, and no change",
    `
place = spool()
tasks = Tasks(max_retries=2, spooler=place)
@tasks.task(name='add')
def add(a, password=None): pass
job = tasks.schedule(add, 1, password='hunter2')
assert repr(job) == str(job) == 'Job <add QUEUED %s>' % job.id
fields = {name: getattr(job, name) for name in job.__slots__}
assert fields == dict(id=job.id, status=JobStatus.QUEUED, task_name='add', queue='default', at=job.at, max_retries=2, retries=0,
    task_args=(1,), task_kwargs={'password': 'hunter2'}, task_func=add), fields
assert isinstance(job.id, uuid.UUID) and job.at.tzinfo is timezone.utc and job.should_retry and job.attempt == 1
assert job.namespace == 'spoold' and job.headers == {} and job.body is None
raises(AttributeError, 'does not change', lambda: setattr(job, 'retries', 1))
later = tasks.schedule_at(add, datetime.now(timezone.utc) + timedelta(hours=1), 1)
assert repr(later).startswith('Job <add WAITING ') and later != job and later.having() == later
import copy, pickle
assert pickle.loads(pickle.dumps(later.having(task_func=print))) == later.having(task_func=print) and copy.copy(job) == job
`,
  )

  python.it(
    'hide what the daemon hides, in fields(), by key, by parameter and in JSON',
    `
import types
tasks = Tasks(spooler=spool())
@tasks.task(name='login')
def login(user, password, *more, **others): pass
job = tasks.schedule(login, 'joe', 'hunter2', '{"password":"x"}', Token='t', nested=[{'TOKEN': 1, 'a': 'token=5 b'}])
assert job.fields()['task_args'] == ('joe', 'hunter2', '{"password":"x"}')
sys.modules['spoold_host.named'] = types.SimpleNamespace(hidden=['password', ' token '])
try: fields = job.fields()
finally: del sys.modules['spoold_host.named']
assert fields['task_args'] == ('joe', '[hidden]', '{"password":"[hidden]"}'), fields
assert fields['task_kwargs'] == {'Token': '[hidden]', 'nested': [{'TOKEN': '[hidden]', 'a': 'token=[hidden] b'}]}, fields
assert 'task_func' not in fields and fields['task_name'] == 'login' and job.task_args[1] == 'hunter2'
`,
  )

  python.it(
    'hide what is quoted, in no more memory than the text has',
    `
import resource
from spoold.hiding import Hide
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = peak()
for quote in '"', "'":
    assert Hide(['password']).json('password=' + quote + 'x' * (4 << 20) + quote) == 'password=[hidden]'
assert peak() - before < 100, peak() - before
`,
  )

  python.it(
    'headers and a body of bytes go beside the arguments, and the limits are said before anything is stored',
    `
place = spool()
tasks = Tasks(spooler=place)
@tasks.task(name='send')
def send(*args): pass
big = os.urandom(3 << 20)
job = tasks.with_options(headers={'traceparent': '00-ab'}, body=big).schedule(send, 1)
assert job.headers == {'traceparent': '00-ab'} and job.body == big
assert stored(place) == [{'task': 'send', 'args': '[1]', 'id': str(job.id), 'traceparent': '00-ab', 'body': big}]
for name in ('task', 'id', 'spooler_x', 'body', ''): raises(ValueError, 'another meaning', lambda: tasks.with_options(headers={name: 'a'}).schedule(send))
raises(TypeError, 'expected text', lambda: tasks.with_options(headers={'a': 1}).schedule(send))
raises(TypeError, 'expected bytes', lambda: tasks.with_options(body='text'))
raises(InvalidJobSignatureError, 'beside a body there is room for 65535', lambda: tasks.with_options(body=b'x').schedule(send, 'y' * 70000))
raises(InvalidJobSignatureError, 'with_options(body=', lambda: tasks.schedule(send, 'y' * 1048577))
raises(InvalidJobSignatureError, 'the headers of send take more', lambda: tasks.with_options(headers={'a': 'y' * 70000}).schedule(send))
assert len(tasks_in(place)) == 1
`,
  )

  python.it(
    'middleware around scheduling sees the calls of a batch once, may add headers, put off or refuse',
    `
place, seen, later = spool(), [], []
tasks = Tasks(spooler=place)
tasks.add(lambda *a: 0, 'a'); tasks.add(lambda *a: 0, 'b')
def layer(calls, next):
    seen.append([(call.task_name, call.args, call.job.status.name) for call in calls])
    for call in calls: call.headers['trace'] = 'x%d' % len(seen)
    if calls[0].args == ('later',): later.append(next)
    elif calls[0].args == ('refuse',): raise KeyError('refused')
    else: next()
assert tasks.middleware(schedule=layer) is tasks
batch = Batch()
batch.schedule('a', 1); batch.schedule('b', 2)
jobs = tasks.schedule_batch(batch)
assert [job.status for job in jobs] == [JobStatus.QUEUED] * 2 and jobs[0].headers == {'trace': 'x1'}
assert seen == [[('a', (1,), 'NOT_SET'), ('b', (2,), 'NOT_SET')]] and [each['trace'] for each in stored(place)] == ['x1'] * 2
assert tasks.schedule('a', 'later').status is JobStatus.NOT_SET and len(stored(place)) == 2
later[0]()
assert [each['trace'] for each in stored(place)] == ['x1', 'x1', 'x2']
raises(RuntimeError, 'may call next once', later[0])
raises(KeyError, 'refused', lambda: tasks.schedule('a', 'refuse'))
raises(InvalidJobSignatureError, 'object is not JSON', lambda: tasks.schedule('a', object()))
assert len(seen) == 3 and len(stored(place)) == 3
raises(TypeError, 'expected a function', lambda: tasks.middleware(run=5))
`,
  )

  python.it(
    'middleware of the process is around the tasks of all registries, outside of their own',
    `
import contextlib, spoold
import spoold.run as run
seen = []
def layer(name):
    @contextlib.contextmanager
    def around(job):
        seen.append('%s of %s' % (name, job.task_name)); yield
    def scheduled(calls, next): seen.append('%s schedules %s' % (name, [call.task_name for call in calls])); next()
    return {'run': around, 'schedule': scheduled}
one, two = Tasks(spooler=spool()), Tasks(spooler=spool())
one.middleware(**layer('one'))
spoold.middleware(**layer('each'))
try:
    for tasks, name in ((one, 'everywhere1'), (two, 'everywhere2')):
        tasks.add(lambda: 0, name); tasks.schedule(name)
        run.begin({b'task': name.encode()}, 1).perform()
finally:
    from spoold import tasks as module
    module._around_each_run.clear(); module._around_each_schedule.clear()
assert seen == [
    "each schedules ['everywhere1']", "one schedules ['everywhere1']", 'each of everywhere1', 'one of everywhere1',
    "each schedules ['everywhere2']", 'each of everywhere2'], seen
raises(TypeError, 'expected a function', lambda: spoold.middleware(run=5))
`,
  )

  python.it(
    'where a task goes can be asked, and what was said of it taken back',
    `
a, b = spool(), spool()
tasks = Tasks(spooler=a, namespace='n')
tasks.add(lambda: 0, 'x'); tasks.add(lambda: 0, 'y', queue='mail')
assert tasks.place_of('x') == a
raises(DestinationUnknown, 'queue mail', lambda: tasks.place_of('y'))
tasks.bind(enqueue_to={'mail': '@abstract'})
raises(DestinationUnknown, 'queue default', lambda: tasks.place_of('x'))
assert tasks.place_of('y') == '@abstract' and tasks.namespace == 'n'
tasks.bind(enqueue_to={}, namespace='')
assert tasks.namespace == 'spoold'
raises(DestinationUnknown, 'nothing says where tasks go', lambda: tasks.place_of('y'))
`,
  )
})

describe('signals in Python', { skip: skipUnless('python3') }, () => {
  const python = new Snippets('from spoold import *\nfrom spoold.signals import Signal, ANY')

  python.it(
    "are used as blinker's: one entry for each receiver and sender, equal methods, weak ones, muted, for the time of a test",
    `
signal, heard = Signal('x'), []
class Receiver:
    def got(self, namespace, **kwargs): heard.append(namespace)
    def other(self, namespace, **kwargs): heard.append('other')
one = Receiver()
signal.connect(one.got); signal.connect(one.got); signal.connect(one.got, sender='shop')
signal.send('shop'); signal.send('blog')
assert heard == ['shop', 'blog'], heard
signal.disconnect(one.got, sender='shop')
signal.disconnect(one.got)
assert signal.send('shop') == [] and signal.receivers == {}
with signal.connected_to(one.got, sender='shop'):
    assert signal.has_receivers_for('shop') and not signal.has_receivers_for('blog')
    assert signal.send('shop', a=1) == [(one.got, None)] and list(signal.receivers_for('shop')) == [one.got]
    with signal.muted(): assert signal.send('shop') == []
assert not signal.receivers
two = Receiver()
signal.connect(one.got, weak=True); signal.connect(two.other)
del one; gc.collect()
heard.clear(); signal.send('shop')
assert heard == ['other'], heard
assert signal.send() == [(list(signal.receivers.values())[0], None)]
raises(TypeError, 'expected one namespace', lambda: signal.send('a', 'b'))
`,
  )

  python.it(
    'refuse senders that nobody is, and log a receiver that raises',
    `
signal, tasks = Signal('x'), Tasks(namespace='shop')
raises(TypeError, 'expected a function, got None', lambda: signal.connect(None))
raises(TypeError, 'write tasks.namespace', lambda: signal.connect_via(tasks))
raises(TypeError, 'expected the namespace of a registry', lambda: signal.connect_via(None))
raises(TypeError, 'expected the namespace of a registry', lambda: signal.connect_via(lambda: 0))
records = []
class Handler(logging.Handler):
    def emit(self, record): records.append((record.name, record.getMessage(), record.exc_info[0]))
logging.getLogger('spoold').addHandler(Handler())
@signal.connect_via('shop')
def bad(namespace, **kwargs): raise KeyError('no')
signal.connect(lambda namespace, **kwargs: 'fine')
assert [answer for _, answer in signal.send('shop')] == ['fine']
assert [(name, kind) for name, _, kind in records] == [('spoold.signals', KeyError)] and 'a receiver of x failed' in records[0][1]
`,
  )
})

describe('mistakes in Python', { skip: skipUnless('python3') }, () => {
  const python = new Snippets('from spoold import *\nfrom spoold import signals')

  python.it(
    'of registering are answered with what was meant',
    `
tasks = Tasks()
raises(ValueError, "did you mean task(name='send')", lambda: tasks.task('send'))
raises(ValueError, 'a task needs a name: task(name=…)', lambda: tasks.task(lambda: 0))
raises(TypeError, 'the task k: there is no option retries; did you mean max_retries?', lambda: tasks.task(name='k', retries=3)(lambda: 0))
raises(TypeError, 'did you mean periodicity?', lambda: tasks.add(lambda: 0, 'k', periodicities=3))
raises(TypeError, 'expected a function for the task k, got 5', lambda: tasks.add(5, 'k'))
raises(TypeError, "expected a dictionary such as {'mail': '/var/spool/mail'}, got 'mail=/tmp'", lambda: Tasks(queues='mail=/tmp'))
raises(ValueError, 'max_concurrency needs a positive max_retries', lambda: Tasks(max_concurrency=2).add(lambda: 0, 'k'))
raises(TypeError, 'expected Tasks, got 5', lambda: tasks.use(5))
for name in ('a b', '_a', 'x' * 201, '', 5): raises(ValueError, 'the name of a task', lambda: tasks.add(lambda: 0, name))
raises(ValueError, 'have no = or ,', lambda: tasks.add(lambda: 0, 'k', 'a=b'))
`,
  )

  python.it(
    'in cron expressions and zones are found where the task is registered',
    `
tasks = Tasks()
def add(cron, zone=None): return lambda: tasks.add(lambda: 0, 'k', cron=cron, time_zone=zone)
for cron, text in [('0 25 * * *', 'expected a number from 0 to 23 for the hour'), ('0 3 * *', 'expected five fields'), ('', 'expected five fields'),
    ('a * * * *', 'from 0 to 59 for the minute'), ('1-99 * * * *', 'from 0 to 59'), ('* * 0 * *', 'from 1 to 31 for the day'),
    ('* * * foo *', 'from 1 to 12 for the month'), ('x/y * * * *', 'expected numbers, ranges and steps'), ('* * * -13 *', 'expected -1, or -n')]:
    raises(ValueError, text, add(cron))
if sys.version_info >= (3, 9):
    raises(ValueError, "there is no time_zone 'Europe/Nowhere'", add('* * * * *', 'Europe/Nowhere'))
for i, cron in enumerate(['0 3 * * *', '*/5 9-17 1,15 jan-MAR mon', '-5 -1 -1 -1 7', '@daily', '* * * * * *', '0 0 L * 5#2', '? * * * sunday']):
    tasks.add(lambda: 0, 'k%d' % i, cron=cron, time_zone='Europe/Paris')
`,
  )

  python.it(
    'of scheduling are answered with what was meant',
    `
place = spool()
tasks = Tasks(spooler=place)
tasks.add(lambda a, **k: 0, 'x')
for wrong in ([1], None): raises(TypeError, 'schedule_batch: expected a Batch', lambda: tasks.schedule_batch(wrong))
raises(TypeError, 'the task comes first', lambda: tasks.schedule_at(datetime.now(), 'x'))
raises(TypeError, 'the message comes first, and the time is at=', lambda: RetryException(datetime.now()))
class Meta: pass
class Question:
    _meta, pk = Meta(), 5
import decimal
for value, text in [(Question(), 'argument 1 is a Question, pass its pk'), (uuid.uuid4(), 'argument 1, pass str(…)'), (date.today(), 'argument 1, pass ….isoformat()'),
    (decimal.Decimal(1), 'argument 1, pass str(…)'), (object(), 'argument 1: Object of type object'), ({'a': {1, 2}}, 'argument 1: Object of type set')]:
    raises(InvalidJobSignatureError, text, lambda: tasks.schedule('x', value))
raises(InvalidJobSignatureError, 'k is a Question, pass its pk', lambda: tasks.schedule('x', 1, k=Question()))
raises(TypeError, 'id: expected a text', lambda: tasks.with_options(id=5))
for error in (UnknownTask, InvalidJobSignatureError, DestinationUnknown, BatchError): assert issubclass(error, SpooldError)
assert tasks_in(place) == []
`,
  )

  python.it(
    'in places are answered with the forms that there are',
    `
file = os.path.join(os.environ['WORKSPACE'], 'file')
open(file, 'w').close()
def at(place):
    tasks = Tasks(spooler=place)
    tasks.add(lambda: 0, 'x')
    return lambda: tasks.schedule('x')
for place in ('unix:///run/x.sock', 'file:///var/spool/app', 'localhost'):
    raises(DestinationUnknown, 'expected a directory (/var/spool/app), the path of a socket (/run/spoold.sock), or its address (host:3031, @abstract)', at(place))
raises(DestinationUnknown, 'file is not a directory', at(file))
raises(DestinationUnknown, 'there is no spool directory', at(file + '/below'))
raises(DestinationUnknown, 'create it as the user of its daemon', at('/no/such/place'))
os.environ['HOME'] = os.environ['WORKSPACE']
os.mkdir(os.path.join(os.environ['HOME'], 'home-spool'))
assert at('~/home-spool')().task_name == 'x' and len(tasks_in(os.path.join(os.environ['HOME'], 'home-spool'))) == 1
os.environ['SPOOLD_ENQUEUE_TO'] = 'a,b'
try: raises(DestinationUnknown, 'two places for the queue default, a and b', at(None))
finally: del os.environ['SPOOLD_ENQUEUE_TO']
raises(ImportError, 'spoold has no RedisBroker', lambda: __import__('spoold', fromlist=['RedisBroker']).RedisBroker)
raises(AttributeError, 'no attribute nothing', lambda: __import__('spoold').nothing)
`,
  )
})
