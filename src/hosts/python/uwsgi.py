"""The module `uwsgi` for spooler code (plugins/python/uwsgi_pymodule.c), implemented on top of spoold."""

import os
import signal as _os_signal
import socket as _socket
import sys
import time as _time
from operator import index as _index

from spoold_host.cache import *  # noqa: F401,F403 — cache_get and the others
from spoold_host.sharedarea import *  # noqa: F401,F403
from spoold_host.wire import CallError as _CallError

SPOOL_OK, SPOOL_RETRY, SPOOL_IGNORE = -2, -1, 0

version = b'2.0.21-spoold'
version_info = (2, 0, 21, 0, b'spoold')
hostname = _socket.gethostname().encode()
started_on = int(_time.time())
numproc, cores, buffer_size, threads = 0, 1, 65535, 0
has_threads = True
is_a_reload = False
loop = unbit = applications = None
magic_table = {}
env = {}
opt = {}
spoolers = ()
sockets = []

_settings = {}
_wire = _loop = None
# False while code is loaded: uWSGI loads code in its master, and forks the spoolers from it
_is_forked = False
# options for kinds of processes that spoold does not have: code that sees them would hand work to such a process
_NOT_HERE = ('mule', 'mules', 'farm')


def _start(wire, settings, loop):
    global _wire, _loop, _settings, spoolers, opt
    _wire, _loop, _settings = wire, loop, settings
    spoolers = tuple(settings.get('spooler', ()))
    opt = _options(settings.get('opt', []))
    if 'pidfile' in opt:
        globals()['pidfile'] = opt['pidfile']
    _cache_start(wire)  # noqa: F405
    _sharedarea_start(settings.get('sharedarea', ()))  # noqa: F405


def _fork():
    global _is_forked
    _is_forked = True


def _surroundings():
    """Returns what crons and their commands inherit from the process in which they run: directory, umask, environment."""
    mask = os.umask(0)
    os.umask(mask)
    return os.getcwdb(), b'%d' % mask, dict(os.environb)


def _loaded(before):
    """Reports what the code loaded so far has changed in this process. uWSGI loads that code in its master, which runs crons, so
    the changes hold for crons."""
    (directory, mask, old), (new_directory, new_mask, new) = before, _surroundings()
    changed = [name + b'=' + value for name, value in new.items() if old.get(name) != value]
    changed += [name for name in old if name not in new]
    if changed or (directory, mask) != (new_directory, new_mask):
        _call('loaded', new_directory if new_directory != directory else b'', new_mask if new_mask != mask else b'', *changed)


def _end():
    """Calls `uwsgi.atexit` before threads are joined and before Python's own atexit functions, as uwsgi_python_atexit() does."""
    ends = globals().get('atexit')
    if ends is not None and os.getpid() == _wire.pid:
        try:
            ends()
        except Exception:
            sys.excepthook(*sys.exc_info())


def _options(pairs):
    """Returns `uwsgi.opt`: names as str, values as bytes. Of an option that was given more than once, it has the last value."""
    # true here, because Python's own threads and fork functions work: code that looks for these options need not warn
    options = {'enable-threads': b'true', 'py-call-uwsgi-fork-hooks': b'true'}
    for name, value in zip(pairs[::2], pairs[1::2]):
        name = name.decode('utf-8', 'surrogateescape')
        if name not in _NOT_HERE:
            options[name] = value
    return options


# -- tasks


def spool(*args, **kwargs):
    message = args[0] if args else kwargs
    if not isinstance(message, dict) or not (args or kwargs):
        raise ValueError('The argument of spooler callable must be a dictionary')
    body, items = None, []
    for key, value in message.items():
        if key == b'body' and isinstance(value, bytes):
            body = value
            continue
        if not isinstance(key, bytes) or isinstance(value, (str, int)) or value is None:
            raise ValueError('spooler callable dictionary must contains only bytes')
        try:
            items += [key, bytes(value)]
        except TypeError:
            raise ValueError('spooler callable dictionary must contains only bytes') from None
    if body is not None:
        del message[b'body']
        items += [b'body', body]
    return _spool(items)


def _spool(items):
    return _call('spool' if _is_forked else 'spool-while-loading', *items)[0]


def _spool_all(tasks):
    """Stores all of these tasks, or none. Each is an id or None, and the keys and values of a dictionary."""
    if len(tasks) == 1 and tasks[0][0] is None:
        _spool(tasks[0][1])
        return
    parts = []
    for once, items in tasks:
        parts += [(once or '').encode(), b'%d' % len(items), *items]
    _call('spool-all' if _is_forked else 'spool-all-while-loading', *parts)


send_to_spooler = spool


def spooler_jobs():
    return _call('jobs')


def spooler_get_task(path):
    if not isinstance(path, str):
        raise TypeError('argument 1 must be str, not %s' % type(path).__name__)
    found = _call('task', os.fsencode(path))
    if not found:
        return None
    body, *items = found
    task = {'spooler_task_name': os.fsencode(path)}
    task.update(zip(items[::2], items[1::2]))
    if body:
        task['body'] = body
    return task


def spooler_pid():
    return int(_call('pids')[0])


def spooler_pids():
    return [int(pid) for pid in _call('pids')]


def spooler_dir():
    return _settings['spool'][0]


def set_spooler_frequency(seconds):
    _call('frequency', _number(seconds))
    return True


def i_am_the_spooler():
    return _is_forked or None


# -- the process


def masterpid():
    return int(_settings['masterpid'][0])


def worker_id():
    return 0


def mule_id():
    return 0


def mypid():
    return os.getpid()


def total_requests():
    return 0


def request_id():
    return 0


def logsize():
    return 0


def i_am_the_lord(legion):
    if not isinstance(legion, str):
        raise TypeError('argument 1 must be str, not %s' % type(legion).__name__)
    return False  # there are no legions


def workers():
    return ()


def mem():
    """Returns the resident and the virtual size of this process, in bytes."""
    with open('/proc/self/statm') as statm:
        pages = statm.read().split()
    size = os.sysconf('SC_PAGE_SIZE')
    return (int(pages[1]) * size, int(pages[0]) * size)


def log(line):
    if not isinstance(line, str):
        raise TypeError('log() argument 1 must be str, not %s' % type(line).__name__)
    try:
        sys.stderr.write(line + '\n')
    except (AttributeError, ValueError):  # a task closed the stream, or it is None
        os.write(2, (line + '\n').encode('utf-8', 'backslashreplace'))
    return True


def setprocname(name):
    try:
        with open('/proc/self/comm', 'w') as comm:
            comm.write(name)
    except OSError:
        pass


def set_user_harakiri(seconds):
    streams = sys.modules.get('spoold_host.streams')  # where tasks run beside each other
    task = None if streams is None else streams.current.get(None)
    _call('harakiri', _number(seconds), b'' if task is None or task.number is None else _number(task.number))


def reload():
    os.kill(masterpid(), _os_signal.SIGHUP)
    return True


def stop():
    os.kill(masterpid(), _os_signal.SIGTERM)
    return True


def lock(number=0):
    if _is_forked:
        raise ValueError('The spooler cannot lock/unlock resources')


unlock = lock


def is_locked(number=0):
    lock()
    return False


def micros():
    return _time.time_ns() // 1000


def ready():
    return True


def listen_queue(number=0):
    return 0


def in_farm(name=None):
    return None


def mule_msg(message, mule=None):
    raise ValueError('no mule configured')


def register_rpc(name, function, argc=0):
    """Keeps a function for `call` in this process, so that modules that also serve a web application can be loaded. It cannot be
    called from outside."""
    _rpcs[name] = function
    return True


_rpcs = {}


def rpc_list():
    return tuple(name.encode() for name in _rpcs)


def call(name, *args):
    function = _rpcs.get(name)
    return None if function is None else function(*args)


# -- signals


def register_signal(number, target, function):
    _check_signal(number)
    if not isinstance(target, str):
        raise TypeError('register_signal() argument 2 must be str, not %s' % type(target).__name__)
    if not callable(function):
        raise ValueError('unable to register signal')
    _signal_call('register-signal', number, target.encode())
    _loop.signals[number] = function


def signal(number, remote=None):
    if _index(number) > 255:
        return None  # silently, as in uWSGI
    _check_signal(number)
    if remote is not None:
        return _signal_remote(number, remote)
    _signal_call('signal', number)


def signal_registered(number):
    return True if _index(number) in _loop.signals else None


def add_timer(number, seconds):
    _signal_call('timer', number, _number(round(seconds * 1000)), b'0')


def add_ms_timer(number, milliseconds):
    _signal_call('timer', number, _number(round(milliseconds)), b'0')


def add_rb_timer(number, seconds, iterations=0):
    _signal_call('timer', number, _number(round(seconds * 1000)), _number(iterations))


def add_cron(number, minute, hour, day, month, week):
    _signal_call('cron', number, *(_number(field) for field in (minute, hour, day, month, week)))
    return True


def add_file_monitor(number, path):
    _signal_call('file-monitor', number, os.fsencode(path))


def _check_signal(number):
    if not 0 <= _index(number) <= 255:
        raise ValueError('a signal number is 0 to 255, got %d' % number)


def _signal_call(name, number, *values):
    _check_signal(number)
    _call(name, _number(number), *values)


def _signal_remote(number, remote):
    address = str(remote)
    try:
        if ':' in address:
            host, _, port = address.rpartition(':')
            peer = _socket.create_connection((host or '127.0.0.1', int(port)), 4)
        else:
            peer = _socket.socket(_socket.AF_UNIX)
            peer.settimeout(4)
            # the abstract names of uWSGI and spoold end with a NUL
            peer.connect('\0%s\0' % address[1:] if address.startswith('@') else address)
        with peer, peer.makefile('rb') as replies:
            peer.sendall(bytes((110, 0, 0, number)))
            reply = replies.read(4)
    except OSError:
        raise OSError('unable to deliver signal %d to node %s' % (number, address)) from None
    if reply[3:] != b'\x01':
        raise ValueError('node %s rejected signal %d' % (address, number))


def _number(value):
    return b'%d' % _index(value)


def _call(name, *values):
    try:
        return _wire.call(name, *values)
    except _CallError as refusal:
        raise ValueError(str(refusal)) from None


# Functions that have no meaning here, because there are no requests, mules, alarms or metrics. Modules that also serve a web
# application refer to them when they are imported, so only a call is an error. The silent ones only report something: they do
# nothing.
_SILENT = frozenset(
    'accepting alarm metric_dec metric_div metric_inc metric_mul metric_set metric_set_max metric_set_min set_logvar '
    'set_warning_message add_var log_this_request'.split()
)
_MEANINGLESS = frozenset(
    'async_connect async_sleep chunked_read chunked_read_nb cl close connect connection_fd disconnect embedded_data extract '
    'farm_get_msg farm_msg get_logvar green_schedule is_connected lord_scroll metric_get '
    'mule_get_msg mule_msg_recv offload parsefile ready_fd recv route rpc scrolls send sendfile sharedarea_object '
    'signal_received signal_wait start_response suspend wait_fd_read wait_fd_write websocket_handshake websocket_recv '
    'websocket_recv_nb websocket_send websocket_send_binary queue_get queue_set queue_push queue_pull queue_pop '
    'queue_slot queue_pull_slot queue_last SymbolsImporter SymbolsZipImporter ZipImporter'.split()
)


def __getattr__(name):
    if name in _SILENT:
        return _silent(name)
    if name in _MEANINGLESS:
        return _meaningless(name)
    raise AttributeError('module uwsgi under spoold has no %s: docs/hosts.md lists what is there' % name)


def _silent(name):
    def call(*args, **kwargs):
        _wire.call('warn', b'uwsgi.%s does nothing under spoold' % name.encode())

    call.__name__ = name
    return call


def _meaningless(name):
    def call(*args, **kwargs):
        raise NotImplementedError('uwsgi.%s does nothing under spoold: docs/hosts.md lists what does' % name)

    call.__name__ = name
    return call
