import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON, virtualenv } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { portOf } from '../helpers/wire.js'
import { ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'
import { programs, pythonEnv } from './named-host.js'
import { Snippets } from './python-snippets.js'

const PRELUDE = `
import subprocess
for name in ('SPOOLD_ENQUEUE_TO', 'SPOOLD_INI'): os.environ.pop(name, None)
import spoold.uwsgi
import uwsgi

def python(*words, env={}):
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=os.environ['WORKSPACE'],
        env={**os.environ, **env})
    return done.returncode, done.stdout.decode()
`

const SNIPPETS: Readonly<Record<string, string>> = {
  'store a task when a decorated function is called, and run nothing that code registers': `
os.environ['SPOOLD_ENQUEUE_TO'] = place = spool()
import uwsgidecorators
from uwsgidecorators import spool as spooled, timer, cron, postfork, filemon, signal, rpc, mulefunc, harakiri, get_free_signal
ran = []
@spooled
def plain(arguments): ran.append(arguments)
@spooled(pass_arguments=True)
def calling(*args, **kwargs): ran.append(args)
@timer(1)
def tick(number): ran.append(number)
@cron(-1, -1, -1, -1, -1)
def hourly(number): ran.append(number)
@filemon('/tmp')
def changed(number): ran.append(number)
@signal(200)
def signalled(number): ran.append(number)
@postfork
def forked(): ran.append('forked')
@rpc('x')
def called(): ran.append('rpc')
@harakiri(3)
def slow(): return 'done'
assert slow() == 'done' and get_free_signal() == 3 and uwsgi.signal_registered(200)
paths = [plain(to='joe'), plain.spool({'to': 'jane'}, priority='7'), plain.f.spool(to='x'), calling(1, at='4000000000', spooler=place)]
assert ran == [] and len(set(paths)) == 4, ran
assert [os.path.dirname(each.decode()) for each in paths] == [place, place + '/7', place, place], paths
assert packet_in(paths[0].decode()) == {'ud_spool_func': 'plain', 'ud_spool_ret': '-2', 'to': 'joe'}
with open(paths[3], 'rb') as file: assert b'ud_spool_func\\x07\\x00calling' in file.read()
assert os.stat(paths[3]).st_mtime == 4000000000
assert uwsgi.spooler is uwsgidecorators.manage_spool_request`,
  'let code register without a place, and say in the error of spool what to set': `
from uwsgidecorators import spool as spooled
@spooled
def lonely(arguments): pass
assert 'spooler' in uwsgi.opt and uwsgi.spoolers == ()
error = raises(ValueError, 'SPOOLD_ENQUEUE_TO=/var/spool/app', lambda: lonely(a='1'))
assert 'SPOOLD_INI=/etc/app.ini' in str(error) and 'spoold.uwsgi.use(ini=' in str(error)
os.environ['SPOOLD_ENQUEUE_TO'] = '/nowhere/at/all'
raises(ValueError, 'there is no spool directory /nowhere/at/all', lambda: uwsgi.spool({b'a': b'b'}))
os.environ['SPOOLD_ENQUEUE_TO'] = 'mail=/var/spool/mail'
raises(ValueError, 'expected a place for tasks without a queue', lambda: uwsgi.spool({b'a': b'b'}))
os.environ['SPOOLD_ENQUEUE_TO'] = 'redis://user:secret@host/0/x'
assert 'secret' not in str(raises(ValueError, 'Python does not store tasks on Redis', lambda: uwsgi.spool({b'a': b'b'})))
os.environ.update(SPOOLD_INI='/nowhere.ini', PATH='/nowhere'); del os.environ['SPOOLD_ENQUEUE_TO']
raises(ValueError, 'the program spoold is neither in the PATH', lambda: uwsgi.spool({b'a': b'b'}))
assert 'spooler' in uwsgi.opt
place = spool()
spoold.uwsgi.use(enqueue_to=place)
assert uwsgi.spool({b'a': b'b'}).decode().startswith(place + '/')
raises(TypeError, 'one of ini and enqueue_to', spoold.uwsgi.use)
from spoold.uwsgi import places
places.use(None, None)`,
  'give tasks unique names over forks and threads, and leave no thread and no descriptor behind': `
os.environ['SPOOLD_ENQUEUE_TO'] = place = spool()
def descriptors(): return sorted(os.listdir('/proc/self/fd'))
uwsgi.spool({b'a': b'0', b'priority': b'3'})
before = descriptors()
def several():
    for i in range(20): uwsgi.spool({b'a': b'%d' % i, b'body': b'x', b'priority': b'3'})
    assert threading.active_count() == 1 and descriptors() == before, descriptors()
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        try:
            several(); os._exit(0)
        except BaseException: traceback.print_exc(); os._exit(1)
    children.append(pid)
several()
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
threads = [threading.Thread(target=lambda: [uwsgi.spool({b'a': b'1'}) for _ in range(20)]) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
assert len(os.listdir(place + '/3')) == 101 and len(os.listdir(place)) == 81
assert descriptors() == before`,
  'run a module, a file or code by python -m spoold.uwsgi, with its arguments and exit code': `
place = spool()
os.environ['SPOOLD_ENQUEUE_TO'] = place
file = os.path.join(place, '..', 'manage.py')
with open(file, 'w') as opened: opened.write('import os, sys, uwsgi\\nprint(__name__, sys.argv[1:], os.path.realpath(sys.path[0]), uwsgi.worker_id() == os.getpid())\\nsys.exit(4)')
assert python('-m', 'spoold.uwsgi', file, 'a', '-b') == (4, "__main__ ['a', '-b'] %s True\\n" % os.path.dirname(os.path.realpath(file)))
with open(os.path.join(os.environ['WORKSPACE'], 'shop.py'), 'w') as opened: opened.write('import sys, uwsgi\\nprint(__name__, sys.argv[1:])')
assert python('-m', 'spoold.uwsgi', '-m', 'shop', 'x') == (0, "__main__ ['x']\\n")
code, said = python('-m', 'spoold.uwsgi', '-c', 'import sys, uwsgi; print(sys.argv, uwsgi.spool({b"a": b"b"}).decode())', 'y')
assert code == 0 and said.startswith("['-c', 'y'] %s/uwsgi_spoolfile_on_" % place), said
code, said = python('-m', 'spoold.uwsgi', '-m')
assert code == 1 and said.startswith('usage: python -m spoold.uwsgi'), said
assert python('-m', 'spoold.uwsgi', 'none.py') == (1, 'python -m spoold.uwsgi: there is no file none.py\\n')
code, said = python('-c', 'import spoold; spoold.Tasks(); import uwsgi')
assert code == 1 and "No module named 'uwsgi'" in said, said
theirs = os.path.join(place, '..', 'theirs'); os.mkdir(theirs)
with open(theirs + '/uwsgidecorators.py', 'w') as opened: opened.write('import uwsgi\\nprint("of uWSGI")')
assert python('-c', 'import sys; sys.path.insert(0, sys.argv[1]); import spoold.uwsgi, uwsgidecorators', theirs) == (0, 'of uWSGI\\n')
code, said = python('-c', 'uwsgi = None; import spoold.uwsgi')
assert code == 0 and '__main__ looked for uwsgi before spoold.uwsgi was imported' in said, said
code, said = python('-c', 'import spoold.uwsgi, uwsgi, sys; uwsgi.atexit = lambda: print("end"); sys.exit(2)')
assert (code, said) == (2, 'end\\n'), said`,
  'send tasks with their bodies, and signals, over the socket of a daemon, whose answers may come in pieces': `
import fcntl, socket, termios
place, got = spool() + '/d.sock', []
server = socket.socket(socket.AF_UNIX); server.bind(place); server.listen(5)
def serve():
    for answer in (1, 1, 0):
        peer = server.accept()[0]
        got.append(peer.recv(65536))
        peer.sendall(bytes([255, 0]))
        while any(fcntl.ioctl(peer, termios.TIOCOUTQ, bytes(4))): pass # until the first piece has been read
        peer.sendall(bytes([0, answer])); peer.close()
thread = threading.Thread(target=serve); thread.start()
os.environ['SPOOLD_ENQUEUE_TO'] = place
assert uwsgi.spool({b'a': b'b', b'body': b'BODY', b'spooler': b'/srv/x'}) == place.encode()
assert uwsgi.signal(7) is None and uwsgi.signal(300) is None
raises(ValueError, 'did not store the task', lambda: uwsgi.spool({b'a': b'b'}))
thread.join(); server.close()
assert got[0].endswith(b'BODY') and b'CONTENT_LENGTH' in got[0] and b'/srv/x' in got[0], got
assert got[1] == bytes([110, 0, 0, 7]), got
raises(ValueError, 'Connection refused', lambda: uwsgi.spool({b'a': b'b'}))
raises(OSError, 'unable to deliver signal 7', lambda: uwsgi.signal(7))`,
  'send tasks and signals to a port of this machine that is written without a host': `
import socket
server = socket.create_server(('127.0.0.1', 0)); port = ':%d' % server.getsockname()[1]
def serve():
    for _ in range(2):
        peer = server.accept()[0]
        peer.recv(65536); peer.sendall(bytes([255, 0, 0, 1])); peer.close()
thread = threading.Thread(target=serve, daemon=True); thread.start()
os.environ['SPOOLD_ENQUEUE_TO'] = port
assert uwsgi.spool({b'a': b'b'}) == port.encode() and uwsgi.signal(7, port) is None
thread.join(); server.close()`,
  'import only the modules that they need': `
code, said = python('-S', '-c', '''
import sys
before = set(sys.modules)
import spoold.uwsgi, uwsgi
print(*sorted(set(sys.modules) - before - {'__future__', '_collections_abc', '_stat', 'genericpath', 'os', 'os.path', 'posixpath', 'stat', 'math'}))''')
assert code == 0 and said.split() == ['atexit', 'spoold', 'spoold.uwsgi', 'spoold.uwsgi.module', 'spoold.uwsgi.places', 'spoold.uwsgi_module', 'uwsgi'], said`,
  'do nothing in a process that a task has started, where the module of a worker is': `
last = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(spoold.__file__)))), 'python', 'last_resort')
assert os.path.isfile(last + '/uwsgi.py'), last
code, said = python('-c', 'import sys; sys.path.append(sys.argv[1]); import spoold.uwsgi, uwsgi; print(uwsgi.i_am_the_spooler(), uwsgi.worker_id())', last)
assert (code, said) == (0, 'True 0\\n'), said`,
  'send named tasks without a place of their own where tasks of uwsgi.spool go': `
from spoold import Tasks
os.environ['SPOOLD_INI'] = '/nowhere'
spoold.uwsgi.use(enqueue_to=spool())
tasks = Tasks(); tasks.add(print, 'p')
tasks.schedule('p')
assert [each['task'] for each in stored(uwsgi.spoolers[0].decode())] == ['p']
spoold.uwsgi.places.use(None, None); del os.environ['SPOOLD_INI']`,
}

/** Dictionaries for `spool`; OTHER, LINK and FIRST are directories. */
const CASES = `
CASES = [
    {b'to': b'joe'}, {}, {b'a': bytearray(b'x'), b'b': memoryview(b'y'), b'c': [1, 2]}, {b'a': b'', b'body': b'', b'CONTENT_LENGTH': b'3'},
    {b'body': b'hello', b'a': b'b'}, {b'body': bytearray(b'no body')}, {b'x': b'y' * 65529}, {b'x': b'y' * 65532}, {b'x': b'y' * 70000}, {b'z' * 65536: b''}, {b'': b'a'},
    {'text': b'x'}, {b'x': 'text'}, {b'x': 1}, {b'x': None}, {b'x': object()}, {b'x': True},
    {b'at': b'4000000000'}, {b'at': b'4000000000.75'}, {b'at': b''}, {b'at': b'0'}, {b'at': b'-5'}, {b'at': b'1700000000000'}, {b'at': b'tomorrow'},
    {b'at': b'2096-10-02T07:06:40Z'}, {b'at': b'2096-10-02 07:06:40.5 +02:00'}, {b'at': b'2096-10-02'}, {b'at': b'2096-02-30'}, {b'at': b'+1x'}, {b'at': b'1e9'},
    {b'priority': b'5'}, {b'priority': b''}, {b'priority': b'x'}, {b'priority': b'../5'}, {b'priority': b'05', b'at': b'4000000000', b'body': b'x'},
    {b'spooler': OTHER}, {b'spooler': LINK}, {b'spooler': OTHER + b'/'}, {b'spooler': b''}, {b'spooler': b'/nowhere'}, {b'spooler': FIRST, b'priority': b'9'},
]
def attempt(case):
    given = dict(case)
    try: path = uwsgi.spool(given)
    except Exception as error: return [type(error).__name__, str(error), b'body' in given]
    assert type(path) is bytes
    with open(path, 'rb') as file: data = file.read()
    status = os.stat(path)
    os.unlink(path)
    return [os.path.dirname(path).decode(), data[:300].hex(), len(data), oct(status.st_mode), int(status.st_mtime) if status.st_mtime > time.time() + 9 else 'now', b'body' in given]
def attempts(): return [attempt(case) for case in CASES]
`

describe("uWSGI's modules in any process", { skip: skipUnless('python3') }, () => {
  const python = new Snippets(PRELUDE, PYTHON)
  for (const [title, code] of Object.entries(SNIPPETS)) python.it(title, code)

  it('give spool the keys, the errors and the places that it has in the daemon', async () => {
    const spool = spoolDirectory()
    const directory = dirname(spool)
    const other = join(directory, 'other')
    mkdirSync(other)
    symlinkSync('other', join(directory, 'link'))
    const cases = CASES.replaceAll('OTHER', `b'${other}'`).replaceAll('FIRST', `b'${spool}'`)
    const imports = 'import json, os, time\nimport spoold.uwsgi, uwsgi\n'
    const source = `${imports}${cases.replaceAll('LINK', `b'${directory}/link'`)}`
    writeFileSync(join(directory, 'cases.py'), source)
    const record = `open('${directory}/host', 'w').write(json.dumps(attempts()))`
    writeFileSync(
      join(directory, 'tasks.py'),
      `from cases import *\nassert uwsgi.numproc == 0, 'the module of the worker'\ndef run(env):\n    ${record}\n    return uwsgi.SPOOL_OK\nuwsgi.spooler = run\n`,
    )
    const ini = join(directory, 'app.ini')
    writeFileSync(
      ini,
      `[uwsgi]\nname = spool\nspooler = ${directory}/%(name)\nspooler2 = dir=${other},external\npythonpath = ${directory}\nimport = tasks\npython = ${PYTHON}\nspooler-ordered\n`,
    )
    writeFileSync(join(spool, 'uwsgi_spoolfile_on_x'), Buffer.from([17, 0, 0, 0]))
    const ran = await spoold(['--drain', ini], { env: { PYTHONDONTWRITEBYTECODE: '1' } })
    assert.equal(ran.code, 0, ran.stderr)
    const code = `import json, sys; sys.path.insert(0, '${directory}'); from cases import *
uwsgi.spoolers; os.environ['PATH'] = '/nowhere'  # asked once
print(json.dumps([attempts(), sorted(uwsgi.opt), [each.decode() for each in uwsgi.spoolers]]))`
    const said = execFileSync(PYTHON, ['-c', code], {
      encoding: 'utf8',
      env: {
        ...process.env,
        ...pythonEnv(),
        SPOOLD_INI: ini,
        PATH: `${programs()}:${process.env.PATH}`,
      },
    })
    const [attempts, options, spoolers] = JSON.parse(said)
    const expected = JSON.parse(readFileSync(join(directory, 'host'), 'utf8'))
    assert.equal(attempts.length, 41)
    assert.deepEqual(attempts, expected)
    assert.deepEqual(spoolers, [spool, other])
    for (const name of ['enable-threads', 'name', 'spooler', 'spooler-ordered', 'spooler2'])
      assert.ok(options.includes(name), name)
  })

  it('store nothing that the user of the daemon cannot read', { skip: skipUnless('root') }, () => {
    const code = `
import os, sys
spool, owner, mine = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.chmod(os.path.dirname(spool), 0o755); os.chown(spool, owner, owner); os.chmod(spool, 0o777)
import spoold.uwsgi, uwsgi
os.seteuid(mine)
try: print('stored', os.stat(uwsgi.spool({b'a': b'b', b'priority': b'5'})).st_uid, os.stat(spool + '/5').st_uid)
except ValueError as error: print(error)
`
    const attempt = (owner: number, mine: number) => {
      const spool = spoolDirectory()
      const args = ['-c', code, spool, String(owner), String(mine)]
      const { stdout, stderr } = spawnSync(PYTHON, args, {
        encoding: 'utf8',
        env: { ...process.env, ...pythonEnv(spool) },
      })
      assert.equal(stderr, '')
      return stdout
    }
    assert.match(
      attempt(65533, 65534),
      /the daemon of this spool is the user 65533, and cannot read what this one, 65534, stores: let both be the same, or store over its socket/,
    )
    assert.equal(attempt(65534, 65534), 'stored 65534 65534\n')
    assert.equal(attempt(65534, 0), 'stored 65534 65534\n')
  })
})

describe('the names of uWSGI 2.0.31', { skip: skipUnless('venv:uwsgi') }, () => {
  let names: string[]
  before(() => {
    const directory = workspace()
    mkdirSync(join(directory, 's'))
    const code = `
import json, uwsgi
names = sorted(dir(uwsgi))
import sys, spoold.uwsgi; again = sys.modules['uwsgi']
json.dump([again.version.decode(), [each for each in names if not each.startswith('__')]], open('${directory}/names', 'w'))`
    writeFileSync(join(directory, 'names.py'), code)
    const uwsgi = join(virtualenv('uwsgi'), 'bin/uwsgi')
    const words = [
      '--master',
      '--sharedarea',
      '1',
      '--spooler',
      join(directory, 's'),
      '--pyrun',
      join(directory, 'names.py'),
    ]
    spawnSync(uwsgi, words, { env: { ...process.env, ...pythonEnv() }, timeout: 60_000 })
    const [version, found] = JSON.parse(readFileSync(join(directory, 'names'), 'utf8'))
    assert.equal(version, '2.0.31', 'uWSGI keeps its own module')
    names = found
  })

  it('are each in one row of docs/uwsgi-module.md, and exist if that row says so', () => {
    const page = readFileSync(join(ROOT, 'docs/uwsgi-module.md'), 'utf8')
    const rows = page
      .slice(0, page.indexOf('## spool'))
      .split('\n')
      .filter(line => line.startsWith('| '))
      .map(line => line.split('|'))
    const listed = new Map<string, boolean>()
    let isThere = true
    for (const [, what = '', text = ''] of rows) {
      if (what.includes('is not there')) isThere = false
      for (const [, name = ''] of text.matchAll(/`(\w+)`/g)) {
        assert.ok(!listed.has(name), `${name} is in two rows`)
        listed.set(name, isThere)
      }
    }
    assert.deepEqual(
      names.filter(name => !listed.has(name)),
      [],
      'these names of uWSGI are not in the manual',
    )
    // what code sets, and what a uWSGI with legions, or in a request, has
    const others = ['spooler', 'post_fork_hook', 'mule_msg_hook', 'atexit', 'i_am_the_lord', 'env']
    assert.deepEqual(
      [...listed.keys()].filter(name => !names.includes(name) && !others.includes(name)),
      [],
      'these names in the manual are of no uWSGI',
    )
    const code = `
import json, sys, spoold.uwsgi, uwsgi
def look(name):
    try: getattr(uwsgi, name)
    except AttributeError as error: return str(error)
    return True
print(json.dumps({name: look(name) for name in sys.argv[1:]}))`
    const said = execFileSync(PYTHON, ['-c', code, ...names], {
      encoding: 'utf8',
      env: { ...process.env, ...pythonEnv('/tmp') },
    })
    for (const [name, answer] of Object.entries(JSON.parse(said)))
      if (listed.get(name)) assert.equal(answer, true, name)
      else assert.match(String(answer), new RegExp(`has no ${name}: take .{5}`))
  })
})

/** With `first`, uWSGI's modules are imported before the libraries; with `last`, after them. */
const LIBRARIES = `
import glob, logging, os, sys, tempfile, warnings

warnings.simplefilter('error')
place = tempfile.mkdtemp(dir=os.environ['WORKSPACE'])
os.environ.update(SPOOLD_ENQUEUE_TO=place, PROMETHEUS_MULTIPROC_DIR=tempfile.mkdtemp(dir=os.environ['WORKSPACE']), DD_TRACE_ENABLED='false')
heard = []
class Hears(logging.Handler):
    def emit(self, record): heard.append(record.getMessage())
logging.getLogger().addHandler(Hears(level=logging.WARNING))
if sys.argv[1] == 'first':
    import spoold.uwsgi
warnings.simplefilter('ignore')
import ddtrace.internal.uwsgi, elasticapm.utils, elasticapm.utils.compat, newrelic.core.agent, prometheus_client.values, sentry_sdk
warnings.simplefilter('error')
import spoold.uwsgi, uwsgi

sentry_sdk.init('http://key@127.0.0.1:1/1', default_integrations=False)
ddtrace.internal.uwsgi.check_uwsgi(worker_callback=print)
assert ddtrace.internal.uwsgi.should_register_atexit()
newrelic.core.agent.check_environment()
assert not elasticapm.utils.is_master_process()
elasticapm.utils.compat.atexit_register(lambda: print('ended', flush=True))
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        assert not elasticapm.utils.is_master_process()
        value = prometheus_client.values.MultiProcessValue(process_identifier=uwsgi.worker_id)
        value('counter', 'orders', 'orders_total', (), (), '').inc(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
assert len(glob.glob(os.environ['PROMETHEUS_MULTIPROC_DIR'] + '/counter_*.db')) == 2
if sys.argv[1] == 'first':
    from django.conf import settings
    settings.configure(EMAIL_BACKEND='django_uwsgi.mail.EmailBackend')
    from django.core.mail import EmailMessage
    from django_uwsgi.decorators import spool, timer
    @spool
    def remind(arguments): raise AssertionError
    remind(to='joe')
    EmailMessage('subject', 'text', 'a@example.com', ['b@example.com']).send()
    import uwsgi_tasks
    @uwsgi_tasks.task
    def letter(to): raise AssertionError
    letter('jane')
    assert len(os.listdir(place)) == 3, os.listdir(place)
assert heard == [], heard
print('checked')
`

describe('libraries that look for uWSGI', { skip: skipUnless('venv:contrib'), concurrency: 2 }, () => {
  for (const order of ['first', 'last'])
    it(`neither warn, refuse nor count wrongly, with spoold.uwsgi imported ${order}`, async () => {
      const directory = workspace()
      const checking = new TestProcess(join(virtualenv('contrib'), 'bin/python'), ['-c', LIBRARIES, order], {
        env: { ...pythonEnv(), WORKSPACE: directory },
      })
      assert.equal(await checking.code(), 0, checking.output)
      assert.match(checking.output, /^checked\nended\n$/)
    })
})

const RUBY = `
require 'spoold/uwsgi'
require 'spoold'
def attempt
  yield
rescue StandardError, NoMethodError => e
  "#{e.class}: #{e.message}"
end
OTHER = ENV.fetch('OTHER')
task = { 'a' => 1, 'body' => 'hello', 'priority' => '5', 'at' => '4000000000.5' }
results = [
  UWSGI.spool(task), task.key?('body'), UWSGI.send_to_spooler({ 'spooler' => OTHER, 'b' => '' }), Spoold.schedule('name', 1).size,
  attempt { UWSGI.spool({ a: 'b' }) }, attempt { UWSGI.spool(3) }, attempt { UWSGI.spool({ 'spooler' => '/nowhere' }) },
  attempt { UWSGI.spool({ 'at' => 'soon' }) }, attempt { UWSGI.spool({ 'priority' => '../5' }) }, attempt { UWSGI.cache_get('x') },
  UWSGI::OPT['spooler-ordered'], UWSGI::SPOOL_OK, UWSGI.register_signal(3, '', nil) && UWSGI.signal_registered(3), UWSGI.worker_id == Process.pid
]
children = Array.new(3) { fork { 20.times { UWSGI.spool({ 'c' => '1', 'spooler' => OTHER }) } } }
children.each { |pid| Process.wait(pid) }
%w[SPOOLD_INI SPOOLD_ENQUEUE_TO].each { |name| ENV.delete(name) }
results << attempt { UWSGI.spool({ 'a' => 'b' }) }
ENV['SPOOLD_ENQUEUE_TO'] = '/nowhere'
results << attempt { UWSGI.spool({ 'a' => 'b' }) }
puts JSON.generate(results.map { |each| each.is_a?(String) ? each.lines.first.chomp : each })
`

const PERL = `
use strict; use warnings;
use Spoold::uwsgi;
use Spoold::Tasks qw(schedule);
use JSON::PP;
sub attempt { my ($code) = @_; my $got = eval { $code->() }; return defined $got ? $got : 'RuntimeError: ' . ($@ =~ s/ at -e line .*//sr) }
my $other = $ENV{OTHER};
my $task = { a => 1, body => 'hello', priority => '5', at => '4000000000.5' };
my @results = (
    uwsgi::spool($task), exists $task->{body} ? JSON::PP::true : JSON::PP::false, uwsgi::spool({ spooler => $other, b => '' }), length(schedule('name', args => [1])) && 36,
    'RuntimeError: spool hash must contains only strings', attempt(sub { uwsgi::spool(3) }), attempt(sub { uwsgi::spool({ spooler => '/nowhere' }) }),
    attempt(sub { uwsgi::spool({ at => 'soon' }) }), attempt(sub { uwsgi::spool({ priority => '../5' }) }), attempt(sub { uwsgi::cache_get('x') }),
    uwsgi::opt->{'spooler-ordered'}, uwsgi::SPOOL_OK, uwsgi::register_signal(3, '', sub { }) ? JSON::PP::true : 0, uwsgi::worker_id() == $$ ? JSON::PP::true : 0,
);
my @children = map { my $pid = fork; if (!$pid) { uwsgi::spool({ c => 1, spooler => $other }) for 1 .. 20; exit 0 } $pid } 1 .. 3;
waitpid $_, 0 for @children;
delete @ENV{qw(SPOOLD_INI SPOOLD_ENQUEUE_TO)};
push @results, attempt(sub { uwsgi::spool({ a => 'b' }) });
$ENV{SPOOLD_ENQUEUE_TO} = '/nowhere';
push @results, attempt(sub { uwsgi::spool({ a => 'b' }) });
print JSON::PP->new->encode(\\@results), "\\n";
`

/** Prints what `spool` answers: for each time of AT, and for what the daemon of SPOOLD_ENQUEUE_TO is sent. */
const RUBY_ELSEWHERE = `
require 'spoold/uwsgi'
include UWSGI
def attempt
  yield
rescue StandardError => e
  e.message
end
results = ENV['AT'].split('|').map { |at| attempt { UWSGI.spool({ 'at' => at }) } }
results << UWSGI.spool({ 'at' => Time.at(4_000_000_000) })
ENV['SPOOLD_ENQUEUE_TO'] = ENV['ELSEWHERE']
results << spool({ 'to' => 'joe', 'priority' => '5', 'at' => '+1h', 'body' => 'x' * 100_000 }) << UWSGI.signal(7) << UWSGI::OPT['spooler']
results << attempt { UWSGI.spool({ 'spooler' => '/nope' }) } << attempt { UWSGI.signal(7, '127.0.0.1:1') }
ENV['SPOOLD_ENQUEUE_TO'] = 'mail=redis://user:secret@host/0/x'
results << attempt { UWSGI.spool({ 'a' => 'b' }) }
puts JSON.generate(results)
`

const PERL_ELSEWHERE = `
use strict; use warnings;
use Spoold::uwsgi;
use JSON::PP;
sub attempt { my ($code) = @_; my $got = eval { $code->() }; return defined $got ? $got : $@ =~ s/ at -e line .*//sr }
my @results = map { my $at = $_; attempt(sub { uwsgi::spool({ at => $at }) }) } split /\\|/, $ENV{AT};
push @results, uwsgi::spool({ at => '4000000000' });
$ENV{SPOOLD_ENQUEUE_TO} = $ENV{ELSEWHERE};
push @results, uwsgi::spool({ to => 'joe', priority => 5, at => '+1h', body => 'x' x 100_000 }), defined uwsgi::signal(7) ? 0 : JSON::PP::true, uwsgi::opt->{spooler};
push @results, attempt(sub { uwsgi::spool({ spooler => '/nope' }) });
$ENV{SPOOLD_ENQUEUE_TO} = '127.0.0.1:1';
push @results, attempt(sub { uwsgi::signal(7) });
$ENV{SPOOLD_ENQUEUE_TO} = 'mail=redis://user:secret@host/0/x';
push @results, attempt(sub { uwsgi::spool({ a => 'b' }) });
print JSON::PP->new->encode(\\@results), "\\n";
`

/** Texts of `at`, in a zone two hours ahead, and the seconds that are stored. */
const TIMES: Readonly<Record<string, string | undefined>> = {
  '4000000000.75': '4000000000.75',
  '2096-10-02T07:06:40Z': '4000000000',
  '2096-10-02 07:06:40.5 +02:00': '3999992800.5',
  '2096-10-02T07:06-0130': '4000005360',
  '2096-10-02 09:06:40': '4000000000',
  '2096-10-02': '3999967200',
  '2096-02-30': undefined,
  '2096-10-02T24:00': undefined,
  '+1x': undefined,
  '1e9': undefined,
  '1700000000000': undefined,
}

describe("uWSGI's module in any process", () => {
  const bin = programs()
  const environment = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({
    PATH: `${bin}:${process.env.PATH}`,
    RUBYLIB: join(ROOT, 'dist/hosts/ruby/library'),
    PERL5LIB: join(ROOT, 'dist/hosts/perl/library'),
    ...env,
  })
  for (const [language, code] of [
    ['ruby', RUBY_ELSEWHERE],
    ['perl', PERL_ELSEWHERE],
  ] as const)
    it(`in ${language} reads times as the daemon does, and sends tasks with bodies, and signals, to its address`, {
      skip: skipUnless(language),
    }, async () => {
      const [here, there] = [spoolDirectory(), spoolDirectory()]
      const daemon = await startDaemon({ spool: there, isAside: true, ini: { socket: '127.0.0.1:0' } })
      const address = `127.0.0.1:${await portOf(daemon)}`
      const asking = new TestProcess(language, ['-e', code], {
        env: environment({
          TZ: 'EET-2',
          AT: Object.keys(TIMES).join('|'),
          SPOOLD_ENQUEUE_TO: here,
          ELSEWHERE: `mail=${here}, ${address}`,
        }),
      })
      assert.equal(await asking.code(), 0, asking.output)
      const results = JSON.parse(asking.output)
      for (const expected of [...Object.values(TIMES), '4000000000']) {
        const answer = String(results.shift())
        if (expected === undefined)
          assert.match(answer, /^at must be epoch seconds, a Date, an ISO 8601 date/)
        else assert.equal(readFileSync(answer, 'latin1').slice(10), expected)
      }
      assert.deepEqual(results.slice(0, 3), [address, true, address])
      assert.match(results[3], /^127\.0\.0\.1:\d+ did not store the task/)
      assert.match(results[4], /^unable to deliver signal 7 to node 127\.0\.0\.1:1/)
      assert.match(results[5], /expected a place for tasks without a queue/)
      assert.doesNotMatch(results[5], /secret/)
      const [name = '', ...rest] = leftIn(there)
      assert.deepEqual([dirname(name), rest], ['5', []])
      assert.ok(readFileSync(join(there, name), 'latin1').endsWith('x'.repeat(100_000)))
      assert.ok(statSync(join(there, name)).mtimeMs > Date.now() + 3_000_000)
    })

  it('in perl stores a task over a socket, and raises a signal there, amid signals that the program handles', {
    skip: skipUnless('perl'),
  }, async () => {
    const server = createServer(async socket => {
      socket.on('error', () => {})
      await once(socket, 'data')
      const before = asking.output.length
      for (let handled = 1; handled <= 10; handled++) {
        asking.child.kill('SIGUSR1')
        await until('the program has handled the signal', () => asking.output.length >= before + handled)
      }
      socket.end(Buffer.from('ff000001', 'hex'))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    after(() => server.close())
    const { port } = server.address() as AddressInfo
    const code = `
use Spoold::uwsgi;
$SIG{USR1} = sub { syswrite STDOUT, '.' };
uwsgi::spool({ to => 'joe' });
uwsgi::signal(7);`
    const asking = new TestProcess('perl', ['-e', code], {
      env: environment({ SPOOLD_ENQUEUE_TO: `127.0.0.1:${port}` }),
    })
    assert.equal(await asking.code(), 0, asking.output)
    assert.equal(asking.output, '.'.repeat(20))
  })

  for (const [language, code] of [
    ['ruby', RUBY],
    ['perl', PERL],
  ] as const)
    it(`in ${language} stores tasks where the ini says, with unique names over forks, and says what is wrong`, {
      skip: skipUnless(language),
    }, () => {
      const spool = spoolDirectory()
      const other = join(dirname(spool), 'other')
      mkdirSync(other)
      const ini = join(dirname(spool), 'app.ini')
      writeFileSync(
        ini,
        `[uwsgi]\nname = spool\nspooler = %d/%(name)\nspooler-external = ${other}\nspooler-ordered = true\n`,
      )
      const { stdout, stderr } = spawnSync(language, ['-e', code], {
        encoding: 'utf8',
        env: environment({ SPOOLD_INI: ini, OTHER: other }),
      })
      assert.equal(stderr, '')
      const [path, hasBody, second, idLength, ...rest] = JSON.parse(stdout)
      assert.equal(dirname(path), join(spool, '5'))
      assert.deepEqual([hasBody, dirname(second), idLength], [false, other, 36])
      const packet = readFileSync(path)
      assert.ok(packet.toString('latin1').endsWith('hello'))
      for (const pair of ['\x01\0a\x01\x001', '\x02\0at\x0c\x004000000000.5', '\b\0priority\x01\x005'])
        assert.ok(packet.toString('latin1').includes(pair), pair)
      assert.deepEqual([statSync(path).mtimeMs, statSync(path).mode & 0o777], [4_000_000_000_000, 0o600])
      assert.equal(tasksIn(other).length, 61)
      assert.equal(tasksIn(spool).length, 1)
      const wanted: ReadonlyArray<RegExp | number | boolean | string> = [
        /^RuntimeError: spool hash must contains only strings$/,
        language === 'ruby' ? /^TypeError: wrong argument type Integer/ : /spool argument must be a hashref/,
        /^RuntimeError: spooler must be one of .*\/spool, .*\/other, got "?\/nowhere"?$/,
        /^RuntimeError: at must be epoch seconds, a Date, an ISO 8601 date, or \+1h30m from now, got "soon"$/,
        /^RuntimeError: priority must be digits only, got "\.\.\/5"$/,
        /^\w+: (UWSGI\.|uwsgi::)cache_get is not there outside uWSGI: docs\/uwsgi-module\.md/,
        'true',
        -2,
        true,
        true,
        /SPOOLD_ENQUEUE_TO=\/var\/spool\/app, or SPOOLD_INI=\/etc\/app\.ini/,
        /there is no spool directory \/nowhere/,
      ]
      assert.equal(rest.length, wanted.length)
      for (const [i, each] of wanted.entries())
        if (each instanceof RegExp) assert.match(String(rest[i]), each)
        else assert.equal(rest[i], each)
    })
})

const tasksIn = (spool: string) => readdirSync(spool).filter(name => name.startsWith('uwsgi_spoolfile_on_'))
