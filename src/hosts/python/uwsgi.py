"""The module `uwsgi` for spooler code (plugins/python/uwsgi_pymodule.c), implemented on top of spoold."""

import os
import signal as _os_signal
import sys
from operator import index as _index

from spoold_host.cache import *  # noqa: F401,F403 — cache_get and the others
from spoold_host.sharedarea import *  # noqa: F401,F403
from spoold_host.uwsgi_module import *  # noqa: F401,F403
from spoold_host.uwsgi_module import _HERE, _NOT_HERE, _SILENT, _check_signal, _pairs_of
from spoold_host.wire import CallError as _CallError

numproc, threads = 0, 0
opt = {}
spoolers = ()

_settings = {}
_wire = _loop = None
# False while code is loaded: uWSGI loads code in its master, and forks the spoolers from it
_is_forked = False


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
    options = dict(_HERE)
    for name, value in zip(pairs[::2], pairs[1::2]):
        name = name.decode('utf-8', 'surrogateescape')
        if name not in _NOT_HERE:
            options[name] = value
    return options


# -- tasks


def spool(*args, **kwargs):
    message = args[0] if args else kwargs or None
    pairs = _pairs_of(message)
    if isinstance(message.get(b'body'), bytes):
        del message[b'body']
    return _spool([part for pair in pairs for part in pair])


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


def total_requests():
    return 0


def request_id():
    return 0


def workers():
    return ()


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


def listen_queue(number=0):
    return 0


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
        from spoold_host.daemon_socket import raise_signal

        return raise_signal(number, str(remote))
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


def _signal_call(name, number, *values):
    _check_signal(number)
    _call(name, _number(number), *values)


def _number(value):
    return b'%d' % _index(value)


def _call(name, *values):
    try:
        return _wire.call(name, *values)
    except _CallError as refusal:
        raise ValueError(str(refusal)) from None


# Functions that have no meaning here, because there are no requests, mules, alarms or metrics. Modules that also serve a web
# application refer to them when they are imported, so only a call is an error. The silent ones do nothing.
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
