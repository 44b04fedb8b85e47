"""A registry of tasks."""

import inspect
import math
import re
import uuid

from . import destination, packet, periodic
from .destination import DEFAULT_QUEUE
from .errors import InvalidJobSignatureError, UnknownTask
from .job import Job, JobStatus
from .times import now, to_text, to_utc

DEFAULT_NAMESPACE = 'spoold'
_NAME = re.compile(r'(?!_)[^\s]+')
_MAX_NAME_BYTES = 200

#: every registry of this process, in order of creation
registries = []


class Task:
    """A function under a name."""

    __slots__ = ('func', 'name', 'queue', 'max_retries', 'max_concurrency', 'periodic', 'registry', 'signature')

    def __init__(self, func, name, queue, max_retries, max_concurrency, periodic, registry):
        self.func, self.name, self.queue, self.registry = func, name, queue, registry
        self.max_retries, self.max_concurrency, self.periodic = max_retries, max_concurrency, periodic
        self.signature = inspect.signature(func)

    @property
    def full_name(self):
        """Its name in packets."""
        return self.registry.prefix + self.name

    @property
    def is_async(self):
        return inspect.iscoroutinefunction(self.func)

    def declaration(self):
        """For the worker of a daemon (src/runtime/worker/hosts/declared-tasks.ts)."""
        limit = -1 if self.max_retries == math.inf else self.max_retries
        return {
            'name': self.full_name,
            'maxRetries': limit,
            'maxConcurrency': self.max_concurrency,
            'queue': self.queue,
            'periodic': self.periodic,
            'place': self.place,
            'isAsync': self.is_async,
        }

    @property
    def place(self):
        """Where it was written, for people."""
        code = getattr(inspect.unwrap(self.func), '__code__', None)
        return repr(self.func) if code is None else '%s:%d' % (code.co_filename, code.co_firstlineno)


class Tasks:
    """A registry of tasks. What is given here is the default of its tasks.

    queue        a name for a spool, see `queues`
    max_retries  how often a task runs again after a failure; unset or 0: it runs at most once
    namespace    prefixes the names of its tasks, and comes first in its signals
    spooler      the spool directory, or the address of a daemon's socket, for tasks without a queue
    queues       the spool directory of each queue
    """

    def __init__(self, queue=None, max_retries=None, *, namespace=None, spooler=None, queues=None):
        self._queue = DEFAULT_QUEUE if queue is None else _checked('a queue', queue)
        self._max_retries = None if max_retries is None else _checked_retries(max_retries)
        self.namespace = DEFAULT_NAMESPACE if namespace is None else _checked('a namespace', namespace)
        self.prefix = '' if namespace is None else namespace + ':'
        self._spooler = spooler
        self._queues = dict(queues or {})
        self._tasks = {}
        self._names = {}
        registries.append(self)

    @property
    def tasks(self):
        """By name."""
        return dict(self._tasks)

    def task(self, func=None, *, name=None, **options):
        """A decorator that registers a function, which stays as it is. The options are those of `add`."""
        options['name'] = name
        if func is None:
            return lambda given: self.task(given, **options)
        self.add(func, **options)
        return func

    def add(
        self,
        func,
        *,
        name=None,
        queue=None,
        max_retries=None,
        max_concurrency=None,
        periodicity=None,
        cron=None,
        time_zone=None,
        missed=None,
        overlap=None
    ):
        """Registers a function.

        max_concurrency  how many tasks of this name run at a time, over all processes and daemons of their spool;
                         it needs a positive max_retries, here or in the registry
        periodicity      the daemon schedules it by itself: a timedelta, or seconds
        cron, time_zone  the same, at the times of a cron expression, in a zone such as 'Europe/Paris'
        missed           for times at which no daemon ran: 'one' run (the default), or none: 'skip'
        overlap          schedule it although its last run is still running
        """
        if name is None:
            raise ValueError('a task needs a name: task(name=…)')
        if not callable(func):
            raise TypeError('expected a function for the task %s, got %r' % (name, func))
        task = Task(
            func,
            _checked('a task', name),
            self._queue if queue is None else _checked('a queue', queue),
            (self._max_retries or 0) if max_retries is None else _checked_retries(max_retries),
            _checked_concurrency(max_concurrency),
            periodic.checked(name, func, periodicity, cron, time_zone, missed, overlap),
            self,
        )
        if max_concurrency is not None and not task.max_retries:
            raise ValueError('the task %s: max_concurrency needs a positive max_retries' % name)
        known = self._tasks.get(name)
        if known is not None:
            raise ValueError('two tasks have the name %s: %s and %s' % (name, known.place, task.place))
        self._tasks[name] = task
        self._names[func] = name

    def schedule(self, task, *args, **kwargs):
        """Stores a task that runs as soon as possible. `task` is a name or a function."""
        return self._store([self._prepare(task, None, args, kwargs)])[0]

    def schedule_at(self, task, at, *args, **kwargs):
        """The same, no earlier than at this time: a datetime, in UTC if it is naive."""
        return self._store([self._prepare(task, to_utc(at), args, kwargs)])[0]

    def schedule_batch(self, batch):
        """Stores all tasks of a batch at once. All are checked before the first is stored."""
        prepared = [self._prepare(*each) for each in batch.take()]
        batch.used()
        return self._store(prepared)

    def _prepare(self, task, at, args, kwargs):
        task = self._find(task)
        try:
            task.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidJobSignatureError('the arguments do not fit %s (%s): %s' % (task.name, task.place, error)) from None
        job_id = uuid.uuid4()
        others = [('id', str(job_id))] + ([] if task.queue == DEFAULT_QUEUE else [('queue', task.queue)])
        stored = packet.create(task.full_name, args, kwargs, others, None if at is None else to_text(at))
        status = JobStatus.WAITING if at is not None and at > now() else JobStatus.QUEUED
        job = Job(job_id, status, task.name, task.queue, at or now(), task.max_retries, 0, args, kwargs)
        return destination.find(task.queue, self._spooler, self._queues), task.queue, stored, job

    def _find(self, task):
        name = task if isinstance(task, str) else self._names.get(task)
        found = self._tasks.get(name)
        if found is None:
            known = ', '.join(sorted(self._tasks)) or 'none'
            raise UnknownTask('no task %s is in this registry; it has: %s' % (task if name is None else name, known))
        return found

    @staticmethod
    def _store(prepared):
        """One sync per queue."""
        for queue in dict.fromkeys(queue for _, queue, _, _ in prepared):
            of_queue = [each for each in prepared if each[1] == queue]
            store = of_queue[0][0]
            store([stored for _, _, stored, _ in of_queue])
        return [job for _, _, _, job in prepared]


def _checked(what, name):
    is_name = isinstance(name, str) and _NAME.fullmatch(name) and name.isprintable() and len(name.encode()) <= _MAX_NAME_BYTES
    if not is_name or what == 'a queue' and re.search('[=,]', name):
        no_more = ' and have no = or ,' if what == 'a queue' else ''
        raise ValueError(
            'the name of %s: expected 1 to %d bytes without spaces and control characters that do not begin with _%s, got %r'
            % (what, _MAX_NAME_BYTES, no_more, name)
        )
    return name


def _checked_retries(number):
    if isinstance(number, bool) or number != math.inf and (not isinstance(number, int) or number < 0):
        raise ValueError('max_retries: expected a whole number from 0, or math.inf, got %r' % (number,))
    return number


def _checked_concurrency(number):
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise ValueError('max_concurrency: expected a whole number from 1, got %r' % (number,))
    return number
