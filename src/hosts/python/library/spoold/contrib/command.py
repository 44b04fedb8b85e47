"""Starts the daemon of an application, for a command of its framework. This process becomes `spoold`, so that signals reach the
daemon, and the exit code is the daemon's."""

from __future__ import annotations

import os
import sys
import sysconfig

from .. import DestinationUnknown
from ..destination import DEFAULT_QUEUE, VARIABLE, is_address, places_in
from ..program import find_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, NoReturn, Sequence

    from ..destination import Place

PROCESSES = 'how many tasks run side by side, each in a process (1)'
CONCURRENCY = 'how many coroutines run side by side in a process (1)'
QUEUE = 'the queue whose tasks run; may be given several times (all)'
DRAIN = 'run what is due, and exit'
RELOAD = 'restart the workers when code changes (in debug mode)'


def arguments(
    enqueue_to: Place | Mapping[str, Place] | None,
    worker: str,
    queues: Sequence[str] = (),
    processes: int | None = None,
    concurrency: int | None = None,
    drain: bool = False,
    reload: bool = False,
    paths: Sequence[str] = (),
    others: Sequence[str] = (),
) -> list[str]:
    """Returns the arguments of the daemon's command line. Raises DestinationUnknown.

    enqueue_to  the setting of the application; None: the environment variable counts
    worker      the module that loads the application
    paths       directories in which modules are found, besides the current one
    others      further options of the daemon
    """
    told = os.environ.get(VARIABLE) if enqueue_to is None else enqueue_to
    if not told:
        raise DestinationUnknown(
            'nothing says where tasks go: set %s, in the configuration of the application or in the environment, '
            'to a directory such as /var/spool/app' % VARIABLE
        )
    places: dict[str, Any] = places_in(told)
    missing = [queue for queue in queues if queue not in places]
    if missing:
        raise DestinationUnknown(
            'no spool is known for the queue %s (known: %s); give it one in %s' % (missing[0], ', '.join(sorted(places)), VARIABLE)
        )
    words = ['--import', worker, '--python', sys.executable]
    here = [queue for queue, place in places.items() if not is_address(_text(place))]
    for queue in queues or here or places:
        words += ['--spooler', _directory(queue, places[queue])]
    for queue, place in places.items():
        if queue != DEFAULT_QUEUE:
            words += ['--spooler-queue', '%s=%s' % (queue, _text(place))]
    for name, number in (('processes', processes), ('concurrency', concurrency)):
        if number is not None:
            words += ['--spooler-%s' % name, str(number)]
    for path in paths:
        words += ['--pythonpath', path]
    for file in sorted(_own_files()) if reload and not drain else ():
        words += ['--touch-reload', file]
    return words + (['--drain'] if drain else []) + list(others)


def become(words: Sequence[str]) -> NoReturn:
    """Replaces this process by the daemon. Raises FileNotFoundError if there is no program `spoold`."""
    program = find_program()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(program, [program, *words])


def _directory(queue: str, place: Any) -> str:
    text = _text(place)
    if is_address(text):
        raise DestinationUnknown(
            'the queue %s goes to a daemon, %s, which runs its tasks itself: name those that are to run here with --queue' % (queue, text)
        )
    return text


def _text(place: Any) -> str:
    if hasattr(place, 'store'):
        raise DestinationUnknown('%r is in the memory of one process: a daemon needs a directory' % (place,))
    text = os.fsdecode(place)
    return text if is_address(text) else os.path.abspath(os.path.expanduser(text))


def _own_files() -> Iterable[str]:
    """Yields the files of the loaded modules that belong to the application, and not to installed packages."""
    ours = os.path.dirname(os.path.dirname(__file__))
    installed = [os.path.realpath(path) + os.sep for path in (ours, *map(sysconfig.get_path, ('stdlib', 'platstdlib')))]
    for module in list(sys.modules.values()):
        file = getattr(module, '__file__', None)
        if not isinstance(file, str) or not file.endswith('.py'):
            continue
        path = os.path.realpath(file)
        if {'site-packages', 'dist-packages'} & set(path.split(os.sep)) or path.startswith(tuple(installed)):
            continue
        yield path
