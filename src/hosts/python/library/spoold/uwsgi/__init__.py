"""uWSGI's modules under another web server: `import spoold.uwsgi` makes `uwsgi` and `uwsgidecorators` importable in this process.

In a real uWSGI and in a worker of spoold the import does nothing. docs/leaving-uwsgi.md says when to use this package.
"""

from __future__ import annotations

import os
import sys

from . import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    Path = Union[str, bytes, 'os.PathLike[str]']

#: the directory of our uwsgidecorators. It comes last in the search path, so uWSGI's own module is found first
_DECORATORS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'last_resort')


def use(ini: Path | None = None, enqueue_to: Path | None = None) -> None:
    """Says where tasks go, in place of the environment.

    ini         the configuration of the daemon, as on its command line: `app.ini`, or `app.ini:section`
    enqueue_to  a directory, or the address of a daemon, as in the variable SPOOLD_ENQUEUE_TO
    """
    if (ini is None) == (enqueue_to is None):
        raise TypeError('use: expected one of ini and enqueue_to')
    places.use(None if ini is None else os.fsdecode(ini), None if enqueue_to is None else os.fsdecode(enqueue_to))


def _is_there() -> bool:
    """True if this process has `uwsgi`: a real uWSGI has it built in, and a worker of spoold has loaded it."""
    return 'uwsgi' in sys.modules or 'uwsgi' in sys.builtin_module_names or _is_started_by_task()


def _is_started_by_task() -> bool:
    """True in a process that `multiprocessing` has started anew for a task: it has the worker's search path, which ends with a
    `uwsgi` that is imported when it is needed."""
    lasts = [path for path in sys.path if os.path.basename(path) == 'last_resort']
    return any(os.path.isfile(os.path.join(path, 'uwsgi.py')) for path in lasts)


def _warn_of_early() -> None:
    """Warns of modules that have looked for `uwsgi` before, because they go on without it and run their tasks in the web
    server."""
    modules = list(sys.modules.items())  # a copy, because another thread may be importing
    early = [name for name, each in modules if isinstance(each, type(sys)) and vars(each).get('uwsgi', each) is None]
    if early:
        import warnings

        said = '%s looked for uwsgi before spoold.uwsgi was imported, and goes on without it: import spoold.uwsgi first'
        warnings.warn(said % ', '.join(sorted(early)), RuntimeWarning, stacklevel=3)


def _install() -> None:
    import atexit

    from . import module

    atexit.register(module._end)
    sys.modules['uwsgi'] = module
    sys.path.append(_DECORATORS)


if not _is_there():
    _warn_of_early()
    _install()
