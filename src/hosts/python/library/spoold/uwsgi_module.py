"""What the module `uwsgi` is both in a worker of spoold, whose host loads this file by itself, and in any other process.

It needs nothing else of this package, so that the host does not take the name `spoold` from user code.
"""

from __future__ import annotations

import os as _os
import sys as _sys
import time as _time

SPOOL_OK, SPOOL_RETRY, SPOOL_IGNORE = -2, -1, 0

version = b'2.0.21-spoold'
version_info = (2, 0, 21, 0, b'spoold')
hostname = _os.uname().nodename.encode()
started_on = int(_time.time())
cores, buffer_size = 1, 65535
has_threads = True
is_a_reload = False
loop = unbit = applications = None
magic_table: dict[bytes, bytes] = {}
env: dict[str, object] = {}
sockets: list[int] = []

#: options that are true, because Python's own threads and fork functions work: code that looks for them need not warn
_HERE = {'enable-threads': b'true', 'py-call-uwsgi-fork-hooks': b'true'}
#: options for kinds of processes that spoold does not have: code that sees them would hand work to such a process
_NOT_HERE = ('mule', 'mules', 'farm')
#: functions that only report something. They do nothing, because there are no requests, alarms or metrics
_SILENT = frozenset(
    'accepting alarm metric_dec metric_div metric_inc metric_mul metric_set metric_set_max metric_set_min set_logvar '
    'set_warning_message add_var log_this_request'.split()
)


def _pairs_of(message: object) -> list[tuple[bytes, bytes]]:
    """Returns the keys and values of a task. Raises ValueError."""
    if not isinstance(message, dict):
        raise ValueError('The argument of spooler callable must be a dictionary')
    pairs = []
    for key, value in message.items():
        if not isinstance(key, bytes) or isinstance(value, (str, int)) or value is None:
            raise ValueError('spooler callable dictionary must contains only bytes')
        try:
            pairs.append((key, bytes(value)))
        except TypeError:
            raise ValueError('spooler callable dictionary must contains only bytes') from None
    return pairs


def mypid() -> int:
    return _os.getpid()


def mule_id() -> int:
    return 0


def logsize() -> int:
    return 0


def i_am_the_lord(legion: str) -> bool:
    if not isinstance(legion, str):
        raise TypeError('argument 1 must be str, not %s' % type(legion).__name__)
    return False  # there are no legions


def in_farm(name: str | None = None) -> None:
    return None


def mem() -> tuple[int, int]:
    """Returns the resident and the virtual size of this process, in bytes."""
    with open('/proc/self/statm') as statm:
        pages = statm.read().split()
    size = _os.sysconf('SC_PAGE_SIZE')
    return (int(pages[1]) * size, int(pages[0]) * size)


def log(line: str) -> bool:
    if not isinstance(line, str):
        raise TypeError('log() argument 1 must be str, not %s' % type(line).__name__)
    try:
        _sys.stderr.write(line + '\n')
    except (AttributeError, ValueError):  # a task closed the stream, or it is None
        _os.write(2, (line + '\n').encode('utf-8', 'backslashreplace'))
    return True


def setprocname(name: str) -> None:
    try:
        with open('/proc/self/comm', 'w') as comm:
            comm.write(name)
    except OSError:
        pass


def micros() -> int:
    return _time.time_ns() // 1000


def ready() -> bool:
    return True


def _check_signal(number: int) -> None:
    try:
        bytes([number])  # a TypeError if it is no number
    except ValueError:
        raise ValueError('a signal number is 0 to 255, got %d' % number) from None
