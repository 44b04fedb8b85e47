"""Named tasks on plain files: a registry of functions that web applications schedule and spoold runs.

    from spoold import Tasks

    tasks = Tasks()

    @tasks.task(name='add', max_retries=3)
    def add(a, b):
        print('Computed {} + {} = {}'.format(a, b, a + b))

    tasks.schedule(add, 1, 2)

It needs Python 3.7 or later and nothing else: no daemon has to be there when a task is scheduled. Importing it starts nothing.
"""

from . import signals
from .batch import Batch
from .errors import AbortException, DestinationUnknown, InvalidJobSignatureError, RetryException, UnknownTask
from .job import Job, JobStatus
from .tasks import Tasks
from .under_uwsgi import attach_uwsgi

__all__ = [
    'AbortException',
    'Batch',
    'DestinationUnknown',
    'InvalidJobSignatureError',
    'Job',
    'JobStatus',
    'RetryException',
    'Tasks',
    'UnknownTask',
    'attach_uwsgi',
    'signals',
]
