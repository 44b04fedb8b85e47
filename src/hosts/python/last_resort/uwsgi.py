"""The module `uwsgi` in a process that `multiprocessing` or a library started anew for a task.

Such a process loads the task's code again, so the module has all names. Registrations have no effect there, and every other
request to the worker raises an error.
"""

import importlib.util
import os
import sys

_ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_REGISTRATIONS = frozenset(('register-signal', 'timer', 'cron', 'file-monitor', 'warn'))


def _load():
    sys.path.insert(0, _ours)
    try:
        spec = importlib.util.spec_from_file_location('uwsgi', os.path.join(_ours, 'uwsgi.py'))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        from spoold_host.wire import CallError
    finally:
        sys.path.remove(_ours)

    class Nobody:
        pid = 0
        signals = {}

        def call(self, name, *arguments):
            if name in _REGISTRATIONS:
                return []
            raise CallError('a process that a task started cannot speak for it; call uwsgi.%s in the task itself' % name)

    settings = {'masterpid': [b'%d' % os.getppid()], 'spool': [b''], 'opt': [b'spooler', b'']}
    module._start(Nobody(), settings, Nobody())
    module._fork()
    sys.modules['uwsgi'] = module


_load()
