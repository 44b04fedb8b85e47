"""Helps to test code that schedules tasks. Nothing is stored, and nothing runs outside the test.

    from spoold.testing import fake

    with fake(tasks) as kit:
        order('joe@example.com')                      # your code, which schedules
        kit.assert_scheduled(send_mail, 'joe@example.com')
        kit.drain()
"""

from __future__ import annotations

from datetime import datetime, timedelta

from . import run, times
from .engine import settle
from .errors import UnknownTask
from .job import Job, JobStatus
from .memory import MemoryBroker
from .tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Sequence

    from .memory import Stored
    from .packet import Packet
    from .tasks import Entry, Schedulable

_ANY: Any = object()


class EndedRun:
    """One run of a task."""

    __slots__ = ('job', 'error', 'value')

    def __init__(self, job: Job, error: BaseException | None, value: Any) -> None:
        #: the job after the run: SUCCEEDED, WAITING for its next run, or FAILED
        self.job = job
        #: the exception that the run raised; None if it raised none
        self.error = error
        #: the value that the function returned
        self.value = value

    def __repr__(self) -> str:
        return 'EndedRun <%r%s>' % (self.job, '' if self.error is None else ': %r' % self.error)


def fake(*tasks: Tasks) -> Kit:
    """Returns a kit that collects scheduled tasks until `restore`. They run in `drain`."""
    return Kit(tasks, is_inline=False)


def inline(*tasks: Tasks) -> Kit:
    """Returns a kit that runs each task before `schedule` returns; `schedule` raises what the task raises. Tasks with a later
    time, and retries, are collected."""
    return Kit(tasks, is_inline=True)


class Kit:
    """Takes the place of all spools of these registries, and of the registries that they use, until `restore` or the end of a
    `with` block."""

    def __init__(self, tasks: Sequence[Tasks], is_inline: bool) -> None:
        if not tasks or not all(isinstance(each, Tasks) for each in tasks):
            raise TypeError('expected Tasks, got %s' % (', '.join(map(repr, tasks)) or 'nothing'))
        for each in tasks:
            if each._stand_in is not None:
                raise RuntimeError('%r has a test kit already: call its restore() first' % (each,))
        self._tasks = tuple(tasks)
        self._moved = timedelta()
        self._broker = MemoryBroker(self.now)
        self._is_inline = is_inline
        self._scheduled: list[Job] = []
        self._failed: list[EndedRun] = []
        for each in tasks:
            each._stand_in = self

    def __enter__(self) -> Kit:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.restore()

    def restore(self) -> None:
        """Ends the kit: tasks go to their spools again."""
        for each in self._tasks:
            if each._stand_in is self:
                each._stand_in = None

    # -- what was scheduled

    def scheduled(self, task: Schedulable | None = None) -> list[Job]:
        """Returns the jobs that were scheduled, in their order and as they were then, whether they have run or not."""
        return [job for job in self._scheduled if self._is(job, task)]

    def waiting(self, task: Schedulable | None = None) -> list[Job]:
        """Returns the jobs that have not ended: they wait for `drain`, or for their time."""
        return [job for job in (self._view(each) for each in self._broker.waiting()) if self._is(job, task)]

    def failed(self, task: Schedulable | None = None) -> list[EndedRun]:
        """Returns the last runs of the tasks that failed and do not run again."""
        return [each for each in self._failed if self._is(each.job, task)]

    def assert_scheduled(
        self,
        task: Schedulable,
        *args: Any,
        times: int | None = None,
        at: datetime | None = None,
        queue: str | None = None,
        **kwargs: Any,
    ) -> list[Job]:
        """Raises AssertionError unless the task was scheduled with these arguments: `times` times, or at least once. Without
        arguments, calls with any arguments count. Returns the jobs that count."""
        jobs = self.scheduled(task)
        found = [
            job
            for job in jobs
            if (not args and not kwargs or (job.task_args, job.task_kwargs) == _through_json(args, kwargs))
            and at in (None, job.at)
            and queue in (None, job.queue)
        ]
        if len(found) != times if times is not None else not found:
            wanted = _call(task, args, kwargs) if args or kwargs else _name(task)
            often = '' if times is None else ' %d times' % times
            were = '\n'.join('  %s' % _described(job) for job in (jobs or self._scheduled)) or '  nothing'
            raise AssertionError('expected that %s was scheduled%s; there was\n%s' % (wanted, often, were))
        return found

    def assert_not_scheduled(self, task: Schedulable) -> None:
        self._assert_none(self.scheduled(task), '%s was not scheduled' % _name(task))

    def assert_nothing_scheduled(self) -> None:
        self._assert_none(self._scheduled, 'nothing was scheduled')

    def clear(self) -> None:
        """Forgets all scheduled, waiting and failed tasks."""
        self._scheduled, self._failed = [], []
        self._broker.flush()

    # -- runs

    def drain(self, future: bool = False, max_runs: int = 10000) -> list[EndedRun]:
        """Runs the due tasks, and due tasks that these schedule, one after the other. Returns their runs.

        future    True: also run tasks with a later time, by moving the clock to it, until no task waits
        max_runs  more runs are an error, because a task may schedule itself for ever
        """
        runs: list[EndedRun] = []
        while True:
            known = [(task, self._entry(task)) for task in self._broker.waiting()]
            first = next(((task, entry) for task, entry in known if entry is not None), None)
            if first is None or first[0].due > self.now() and not future:
                return runs
            task, entry = first
            assert entry is not None
            if task.due > self.now():
                self.travel_to(task.due)
            if len(runs) >= max_runs:
                raise RuntimeError(
                    'drain: %d runs, and %s still waits; does a task schedule itself, or fail for ever? (max_runs)'
                    % (max_runs, task.full_name)
                )
            self._broker.remove(task)
            runs.append(self._run(task, entry))

    # -- the clock

    def now(self) -> datetime:
        return times.now() + self._moved

    def advance(self, duration: timedelta | float) -> None:
        """Moves the kit's clock, which decides what is due, by a timedelta or seconds. Python's own clock stays as it is."""
        self._moved += duration if isinstance(duration, timedelta) else timedelta(seconds=duration)

    def travel_to(self, at: datetime) -> None:
        self.advance(times.to_utc(at) - self.now())

    # -- the kit as a place for tasks, which registries use

    @property
    def key(self) -> str:
        return 'kit:%d' % id(self)

    def store(self, packets: Sequence[Packet]) -> None:
        added = self._broker.add(packets)
        self._scheduled += [self._view(each) for each in added]
        for task in added if self._is_inline else ():
            entry = self._entry(task)
            if entry is None or task.due > self.now():
                continue
            self._broker.remove(task)
            error = self._run(task, entry).error
            if error is not None:
                raise error

    def _run(self, task: Stored, entry: Entry) -> EndedRun:
        one = run.Run(entry, task.env, task.attempt, task.due.timestamp(), self.now)
        error: BaseException | None = None
        value: Any = None
        self._broker.begin(task)
        try:
            value = _elsewhere(one) if one.is_async and _has_loop() else one.perform()
        except BaseException as raised:
            error = raised
            settle(self._broker, task, one, error)  # in the except block, as in a daemon: a receiver may report the exception
        else:
            settle(self._broker, task, one, None)
        ended = EndedRun(one.job, error, value)
        if one.job.status is JobStatus.FAILED:
            self._failed.append(ended)
        if isinstance(error, KeyboardInterrupt):
            raise error
        return ended

    def _entry(self, task: Stored) -> Entry | None:
        return next((found for found in (each._named(task.full_name) for each in self._tasks) if found is not None), None)

    def _view(self, task: Stored) -> Job:
        entry = self._entry(task)
        if entry is None:
            raise UnknownTask('no task %s is in the registries of this kit' % task.full_name)
        job = run.Run(entry, task.env, task.attempt, task.due.timestamp(), self.now).job
        return job.having(status=JobStatus.WAITING if task.due > self.now() else JobStatus.QUEUED, at=task.due)

    def _is(self, job: Job, task: Schedulable | None) -> bool:
        if task is None:
            return True
        for each in self._tasks:
            try:
                return job.task_func is each.get(task).func
            except UnknownTask:
                continue
        raise UnknownTask('no task %s is in the registries of this kit' % _name(task))

    @staticmethod
    def _assert_none(jobs: Sequence[Job], what: str) -> None:
        if jobs:
            raise AssertionError('expected that %s; there was\n%s' % (what, '\n'.join('  %s' % _described(job) for job in jobs)))


def _has_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _elsewhere(one: run.Run) -> Any:
    """Runs a coroutine in a thread with an event loop of its own, because the loop of this thread runs the test."""
    import asyncio
    import contextvars
    import threading

    context, ended = contextvars.copy_context(), {}

    def work() -> None:
        try:
            ended['value'] = context.run(asyncio.run, one.perform_async())
        except BaseException as error:
            ended['error'] = error

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if 'error' in ended:
        raise ended['error']
    return ended['value']


def _through_json(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments as a task gets them."""
    import json

    return tuple(json.loads(json.dumps(args))), json.loads(json.dumps(kwargs))


def _name(task: Schedulable) -> str:
    return task if isinstance(task, str) else getattr(task, 'task_name', None) or getattr(task, '__name__', None) or repr(task)


def _call(task: Schedulable, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    words = [repr(each) for each in args] + ['%s=%r' % each for each in kwargs.items()]
    return '%s(%s)' % (_name(task), ', '.join(words))


def _described(job: Job) -> str:
    at = '' if job.status is JobStatus.QUEUED else ' at %s' % job.at.isoformat()
    return _call(job.task_name, job.task_args, job.task_kwargs) + at
