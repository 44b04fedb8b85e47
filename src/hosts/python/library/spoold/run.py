"""Runs named tasks, for spoold's host and for uWSGI's spooler."""

import asyncio
import traceback

from . import signals
from .errors import AbortException, RetryException
from .job import Job, JobStatus, id_in
from .packet import arguments_of
from .tasks import registries
from .times import from_epoch, now

#: of what a daemon is told about an error
_MAX_CHARS = 10000

_index = {}
_counted = None


def find(name):
    """The task that has this name in packets, or None. Raises ValueError if two tasks have it."""
    global _index, _counted
    count = [len(each._tasks) for each in registries]
    if count != _counted:  # modules may register tasks at any time
        _index = _index_of(registries)
        _counted = count
    return _index.get(name)


def known_tasks():
    find('')
    return list(_index.values())


def _index_of(all_registries):
    index = {}
    for registry in all_registries:
        for task in registry._tasks.values():
            other = index.setdefault(task.full_name, task)
            if other is not task:
                raise ValueError('two tasks have the name %s: %s and %s' % (task.full_name, other.place, task.place))
    return index


def begin(env, attempt):
    """The run of a task that a registry knows; None for any other packet."""
    name = env.get(b'task')
    task = None if name is None else find(name.decode('utf-8', 'surrogateescape'))
    return None if task is None else Run(task, env, attempt)


class Run:
    """One run of one task.

    `call` and then `succeeded` or `failed`. These return what becomes of the task: None, it is done; otherwise an answer with
    `error`, `retry` or `bury`, which src/runtime/worker/hosts/host-answer.ts reads.
    """

    def __init__(self, task, env, attempt):
        self._task = task
        self._namespace = task.registry.namespace
        try:
            args, kwargs = arguments_of(env)
            self._unreadable = None
        except ValueError as error:
            args, kwargs, self._unreadable = [], {}, error
        self.job = Job(
            id_in(env.get(b'id', b'').decode('utf-8', 'replace')),
            JobStatus.RUNNING,
            task.name,
            task.queue,
            from_epoch(env.get(b'at', b'')) or now(),
            task.max_retries,
            attempt - 1,
            tuple(args),
            kwargs,
        )

    def call(self):
        """What the function returns; of an `async def`, what to await."""
        signals.job_started.send(self._namespace, job=self.job)
        if self._unreadable is not None:
            raise AbortException('the arguments cannot be read: %s' % self._unreadable)
        return self._task.func(*self.job.task_args, **self.job.task_kwargs)

    def perform(self):
        """To its end; an `async def` too."""
        value = self.call()
        if self.is_async:
            event_loop().run_until_complete(value)

    @property
    def is_async(self):
        return self._task.is_async

    def succeeded(self):
        self.job = self.job._replace(status=JobStatus.SUCCEEDED)
        signals.job_finished.send(self._namespace, job=self.job)
        return None

    def failed(self, error):
        job = self.job
        if isinstance(error, AbortException) or job.retries >= job.max_retries:
            self.job = job._replace(status=JobStatus.FAILED)
            signals.job_failed.send(self._namespace, job=self.job, err=error)
        else:
            self.job = job._replace(status=JobStatus.WAITING, retries=job.retries + 1)
            signals.job_schedule_retry.send(self._namespace, job=self.job, err=error)
        signals.job_finished.send(self._namespace, job=self.job)
        return _failure(error)  # last, because a time is said as a distance from now


def tell(name, worker):
    """Sends worker_started or worker_terminated to every namespace."""
    for namespace in dict.fromkeys(registry.namespace for registry in registries):
        getattr(signals, name).send(namespace, worker_name=worker)


_event_loop = None


def event_loop():
    """One for all tasks, so that what they share may belong to it."""
    global _event_loop
    if _event_loop is None:
        _event_loop = asyncio.new_event_loop()
        asyncio.set_event_loop(_event_loop)
    return _event_loop


def _failure(error):
    if isinstance(error, AbortException):
        return {'bury': str(error)[:_MAX_CHARS] or 'the task raised AbortException'}
    if not isinstance(error, RetryException):
        return {'error': _explain(error)}
    wait = True if error.at is None else max(0, (error.at - now()).total_seconds())
    return {'retry': wait, 'reason': str(error)[:_MAX_CHARS]}


def _explain(error):
    """The traceback from the task's function on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get('__package__') in (__package__, 'spoold_host'):
        trace = trace.tb_next
    return ''.join(traceback.format_exception(type(error), error, trace)).rstrip()[:_MAX_CHARS]
