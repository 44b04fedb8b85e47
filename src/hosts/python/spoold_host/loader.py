"""Loads the configured modules, in uWSGI's order (plugins/python/python_plugin.c)."""

import importlib.util
import os
import sys
import threading

from . import named
from .application import load_applications
from .loop import explain
from .modules import import_named
from .wire import READY, UNLOADABLE, error_bytes, error_text

LAST_RESORT, LIBRARY = 'last_resort', 'library'


def load(wire, settings, loop):
    """Loads the configured modules, and reports the result to the worker. Returns True if tasks may follow."""
    try:
        _find_modules(settings)
        import uwsgi

        uwsgi._start(wire, settings, loop)
        before = uwsgi._surroundings()
        for name in settings.get('shared-import', []):
            import_named(os.fsdecode(name))
        if 'lazy-apps' in settings:
            uwsgi._loaded(before)
        for name in settings.get('import', []):
            import_named(os.fsdecode(name))
        failures = load_applications(settings, explain_import)
        _tell_of_threads(wire)
        if 'lazy-apps' not in settings:
            uwsgi._loaded(before)
        uwsgi._fork()
        hook = getattr(uwsgi, 'post_fork_hook', None)
        if hook is not None:
            hook()
        for name in settings.get('spooler-import', []):
            import_named(os.fsdecode(name))
        tasks = named.declared()
        if tasks:
            _tell_of_another_library(wire)
        if not _is_usable(wire, settings, loop, failures, hasattr(uwsgi, 'spooler') or tasks != b''):
            return False
        named.started()
    except BaseException as error:
        wire.send(UNLOADABLE, 0, error_bytes(explain_import(error)))
        return False
    wire.send(READY, 0, tasks)
    return True


def _is_usable(wire, settings, loop, failures, has_handler):
    """
    Returns True if this host can run tasks; otherwise it reports why not.

    Code that registers nothing, or an application that fails, ends the worker only if there is no other handler. An application
    that registers nothing does not, because it is loaded for its side effects.
    """
    is_idle = not has_handler and not loop.signals
    if is_idle and 'alone' in settings and 'application' not in settings:
        wire.send(UNLOADABLE, 0, IDLE)
        return False
    if failures and ('need-app' in settings or (is_idle and 'alone' in settings)):
        wire.send(UNLOADABLE, 0, error_bytes('\n'.join(map(error_text, failures))))
        return False
    for failure in failures:
        wire.call('warn', error_bytes(failure))
    if is_idle:
        wire.call('warn', IDLE)
    return True


IDLE = (
    b'Python code registered no handler: it leaves all tasks alone. Set uwsgi.spooler, use the decorators of '
    b'uwsgidecorators, or register named tasks, in what import, spooler-import or the web application loads'
)


def _tell_of_threads(wire):
    """Warns of threads that loaded code has started: uWSGI forks its spoolers after loading, so there they stay in its master."""
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if names:
        wire.call(
            'warn',
            _bytes(
                'Python code left threads running while it was loaded, and they run in each worker (in uWSGI only in the '
                'master): %s. Start them in a function that uwsgidecorators.postfork registers, or in a handler'
                % ', '.join(names)
            ),
        )


def _tell_of_another_library(wire):
    """Warns of an installed library of another version. The host uses its own library, because the two belong together, but
    programs that schedule tasks use the installed one."""
    import re

    ours = sys.modules['spoold']
    for path in sys.path:
        file = os.path.join(path, 'spoold', '__init__.py')
        if file == ours.__file__ or not os.path.isfile(file):
            continue
        with open(file, encoding='utf-8', errors='replace') as opened:
            found = re.search(r"^__version__ = '(.*)'$", opened.read(), re.MULTILINE)
        version = 'a version without a number' if found is None else found.group(1)
        if version != ours.__version__:
            wire.call(
                'warn',
                _bytes(
                    'the Python library in %s is %s, and this daemon uses its own, %s: pip install "$(spoold python-library)" '
                    'brings that to what schedules tasks' % (path, version, ours.__version__)
                ),
            )
            return


def _bytes(text):
    return text.encode('utf-8', 'backslashreplace')


def _find_modules(settings):
    """Loads `uwsgi`, and sets up the search path. The host's own modules are not on it, because user code only needs `uwsgi`."""
    ours = sys.path.pop(0)
    spec = importlib.util.spec_from_file_location('uwsgi', os.path.join(ours, 'uwsgi.py'))
    sys.modules['uwsgi'] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # before an installed library, because the host and its library belong together
    sys.path.insert(0, os.path.join(ours, LIBRARY))
    # uWSGI adds "."; here that would mean the spool once tasks run
    sys.path.insert(0, os.getcwd())
    for path in settings.get('path', []):
        sys.path.insert(0, os.fsdecode(path))
    sys.path.append(os.path.join(ours, LIBRARY, 'spoold', LAST_RESORT))
    sys.path.append(os.path.join(ours, LAST_RESORT))
    if 'pyargv' in settings:
        sys.argv[1:] = os.fsdecode(settings['pyargv'][-1]).split()


def explain_import(error):
    text = explain(error)
    if isinstance(error, ModuleNotFoundError):
        text += (
            '\n(%s is the interpreter: install the package there, name another one with python = PROGRAM, or a virtual '
            'environment with virtualenv = DIR; a module of your own is found with pythonpath = its directory, or with spooler-import = its file)'
            % sys.executable
        )
    return text
