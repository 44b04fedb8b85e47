"""The module `uwsgi` in a process that is neither uWSGI's nor a worker of spoold. The daemon runs the tasks that it stores.

docs/uwsgi-module.md lists all names of uWSGI's module, and what each does here.
"""

from __future__ import annotations

import os

from ..uwsgi_module import *  # noqa: F403
from ..uwsgi_module import _SILENT, _check_signal
from . import places as _places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

numproc, threads = 1, 1
_pid = os.getpid()
#: the numbers of the signals that are registered, so that `get_free_signal` does not return them again
_registered: set[int] = set()


# -- tasks


def spool(*args: Any, **kwargs: Any) -> bytes:
    from . import enqueuing

    return enqueuing.spool(args[0] if args else kwargs or None)


send_to_spooler = spool


def i_am_the_spooler() -> None:
    return None


# -- the process


def masterpid() -> int:
    """Returns the pid of the server: of the process that loaded this module before it forked, else of the parent process. It is
    never 0, because code takes 0 for a uWSGI without a master."""
    return _pid if os.getpid() != _pid else os.getppid() or _pid


def worker_id() -> int:
    """Returns a number that differs between processes, as callers need it. It is not small, unlike uWSGI's, and never 0, which is
    the daemon's."""
    return os.getpid()


def set_user_harakiri(seconds: int) -> None:
    """Does nothing: the server has its own limit for requests."""


def _end() -> None:
    """Calls the function that `uwsgi.atexit` is when the process ends."""
    ends = globals().get('atexit')
    if ends is not None:
        ends()


# -- what the daemon does


def register_signal(number: int, target: str, function: Callable[..., Any]) -> None:
    _check_signal(number)
    if not callable(function):
        raise ValueError('unable to register signal')
    _registered.add(number)


def signal_registered(number: int) -> bool | None:
    return True if number in _registered else None


def add_timer(number: int, seconds: float) -> None:
    _check_signal(number)


def add_ms_timer(number: int, milliseconds: float) -> None:
    _check_signal(number)


def add_rb_timer(number: int, seconds: float, iterations: int = 0) -> None:
    _check_signal(number)


def add_cron(number: int, minute: int, hour: int, day: int, month: int, week: int) -> bool:
    _check_signal(number)
    return True


def add_file_monitor(number: int, path: str) -> None:
    _check_signal(number)


def register_rpc(name: str, function: Callable[..., Any], argc: int = 0) -> bool:
    return True


def signal(number: int, remote: str | None = None) -> None:
    if isinstance(number, int) and number > 255:
        return  # silently, as in uWSGI
    _check_signal(number)
    if remote is None:
        from . import signalling

        signalling.raise_in_daemon(number)
    else:
        from ..daemon_socket import raise_signal

        raise_signal(number, str(remote))


# -- what does nothing, and what is not there


#: for names that begin like this: what to take instead. `_instead_of` puts it into an error message
_INSTEAD = (
    ('cache_', "the cache of the framework, on Redis or memcached; in tasks uwsgi.%s works: the daemon's workers share a cache"),
    ('lock unlock is_locked', 'fcntl.flock on a file, or a lock of the database'),
    ('sharedarea_', 'multiprocessing.shared_memory, a file that is mapped, or Redis'),
    ('mule_get_msg mule_msg farm_', 'a task: @spool, in a spool of its own'),
    ('rpc call rpc_list', 'a task, or a request over HTTP'),
    ('websocket_', 'an ASGI server, such as uvicorn or granian'),
    ('sendfile', 'wsgi.file_wrapper, or X-Accel-Redirect of the proxy'),
    ('chunked_read', 'wsgi.input, which reads chunks, too'),
    ('async_ connect connection_fd is_connected disconnect close send recv suspend green_schedule wait_fd_ ready_fd offload', 'asyncio, or gevent'),
    ('workers total_requests request_id listen_queue', "the web server's metrics; of tasks, spoold status"),
    ('spooler_jobs spooler_get_task', 'spoold ls, spoold show'),
    ('spooler_pid spooler_pids spooler_dir set_spooler_frequency', 'spoold status, and the ini'),
    ('reload stop', "the web server's signals (kill -HUP, kill -TERM), and spoold's"),
    ('metric_get', 'prometheus_client; of tasks, spoold has metrics'),
    ('queue_', 'a list in Redis, or tasks'),
    ('signal_wait signal_received', "a function that is registered for the signal, which the daemon's workers call"),
    ('SymbolsImporter SymbolsZipImporter ZipImporter', 'zipimport'),
    ('cl get_logvar embedded_data extract parsefile route scrolls lord_scroll start_response', 'what the framework has'),
)


def __getattr__(name: str) -> Any:
    if name == 'opt':
        return _places.told().options
    if name == 'spoolers':
        return tuple(os.fsencode(spool.name) for spool in _places.told().spools)
    if name in _SILENT:
        return _nothing
    if name.startswith('__'):
        raise AttributeError(name)
    raise AttributeError('module uwsgi of spoold.uwsgi has no %s: %s' % (name, _instead_of(name)))


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


def _instead_of(name: str) -> str:
    for beginnings, what in _INSTEAD:
        for beginning in beginnings.split():
            if name == beginning or beginning[-1] == '_' and name.startswith(beginning) or name.startswith(beginning + '_'):
                return 'take %s (docs/uwsgi-module.md)' % (what.replace('%s', name))
    return 'docs/uwsgi-module.md lists what is there'
