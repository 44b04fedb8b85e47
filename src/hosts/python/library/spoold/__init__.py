"""Named tasks on plain files: a registry of functions that web applications schedule and spoold runs.

    from spoold import Tasks

    tasks = Tasks()

    @tasks.task(name='add', max_retries=3)
    def add(a, b):
        print('Computed {} + {} = {}'.format(a, b, a + b))

    tasks.schedule(add, 1, 2)

It needs Python 3.7 or later and nothing else. No daemon has to run when a task is scheduled. Importing it starts nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import signals
    from .batch import Batch
    from .engine import AsyncioWorkers, Engine, ThreadWorkers
    from .errors import (
        AbortException,
        BatchError,
        DestinationUnknown,
        InvalidJobSignatureError,
        RetryException,
        SpooldError,
        UnknownTask,
        WorkerDied,
    )
    from .job import Job, JobStatus, current_job
    from .logs import JobFilter
    from .memory import MemoryBroker
    from .tasks import Task, Tasks, middleware
    from .under_uwsgi import attach_uwsgi

__version__ = '0.1.0'

__all__ = [
    'AbortException',
    'AsyncioWorkers',
    'Batch',
    'BatchError',
    'DestinationUnknown',
    'Engine',
    'InvalidJobSignatureError',
    'Job',
    'JobFilter',
    'JobStatus',
    'MemoryBroker',
    'RetryException',
    'SpooldError',
    'Task',
    'Tasks',
    'ThreadWorkers',
    'UnknownTask',
    'WorkerDied',
    'attach_uwsgi',
    'current_job',
    'middleware',
    'signals',
]

#: the module of each name. It is loaded when the name is first used, because `spoold.uwsgi` needs none of them
_MODULES = {
    'AbortException': 'errors',
    'AsyncioWorkers': 'engine',
    'Batch': 'batch',
    'BatchError': 'errors',
    'DestinationUnknown': 'errors',
    'Engine': 'engine',
    'InvalidJobSignatureError': 'errors',
    'Job': 'job',
    'JobFilter': 'logs',
    'JobStatus': 'job',
    'MemoryBroker': 'memory',
    'RetryException': 'errors',
    'SpooldError': 'errors',
    'Task': 'tasks',
    'Tasks': 'tasks',
    'ThreadWorkers': 'engine',
    'UnknownTask': 'errors',
    'WorkerDied': 'errors',
    'attach_uwsgi': 'under_uwsgi',
    'current_job': 'job',
    'middleware': 'tasks',
}


def __getattr__(name: str) -> Any:
    if name == 'RedisBroker':
        raise ImportError(
            'spoold has no RedisBroker: Python stores tasks in a directory, which a daemon may forward to Redis '
            "(Engine('/var/spool/app')); docs/python-migration.md"
        )
    from importlib import import_module

    if name == 'signals':
        return import_module('.signals', __name__)
    if name not in _MODULES:
        raise AttributeError('module spoold has no attribute %s' % name)
    value = globals()[name] = getattr(import_module('.' + _MODULES[name], __name__), name)
    return value
