"""Named tasks on plain files: a registry of functions that web applications schedule and spoold runs.

    from spoold import Tasks

    tasks = Tasks()

    @tasks.task(name='add', max_retries=3)
    def add(a, b):
        print('Computed {} + {} = {}'.format(a, b, a + b))

    tasks.schedule(add, 1, 2)

It needs Python 3.7 or later and nothing else: no daemon has to be there when a task is scheduled. Importing it starts nothing.
"""

from __future__ import annotations

from . import signals
from .batch import Batch
from .errors import (
    AbortException,
    BatchError,
    DestinationUnknown,
    InvalidJobSignatureError,
    RetryException,
    SpooldError,
    UnknownTask,
)
from .job import Job, JobStatus, current_job
from .tasks import Task, Tasks, middleware

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .engine import AsyncioWorkers, Engine, ThreadWorkers
    from .logs import JobFilter
    from .memory import MemoryBroker
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
    'attach_uwsgi',
    'current_job',
    'middleware',
    'signals',
]

#: what is loaded when it is used
_MODULES = {
    'AsyncioWorkers': 'engine',
    'Engine': 'engine',
    'JobFilter': 'logs',
    'MemoryBroker': 'memory',
    'ThreadWorkers': 'engine',
    'attach_uwsgi': 'under_uwsgi',
}


def __getattr__(name: str) -> Any:
    if name == 'RedisBroker':
        raise ImportError(
            'spoold has no RedisBroker: Python stores tasks in a directory, which a daemon may forward to Redis '
            "(Engine('/var/spool/app')); docs/python-migration.md"
        )
    if name not in _MODULES:
        raise AttributeError('module spoold has no attribute %s' % name)
    from importlib import import_module

    return getattr(import_module('.' + _MODULES[name], __name__), name)
