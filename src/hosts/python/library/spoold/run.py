"""Runs named tasks: in spoold's host, in uWSGI's spooler, and in the process of the application."""

from __future__ import annotations

import sys
import time
import traceback

from . import signals, tasks, times, utils
from .errors import AbortException, RetryException, WorkerDied
from .job import Job, JobStatus, current, id_in
from .packet import arguments_of, headers_of
from .times import from_epoch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from datetime import datetime
    from typing import Any, Callable, ContextManager, Mapping

    from .tasks import Entry

_index: dict[str, Entry] = {}
_indexed_at = -1


def find(name: str) -> Entry | None:
    """Returns the task that has this name in packets; None if there is none. Raises ValueError if two tasks have one name."""
    global _index, _indexed_at
    if _indexed_at != tasks.changes:  # modules may register tasks at any time
        try:
            _index = index_of([each for each in tasks.registries() if each._user() is None])
        except ValueError:
            if name not in _index:
                raise
            return _index[name]  # since the last index, two tasks got the same name; tasks of that index still run
        _indexed_at = tasks.changes
    return _index.get(name)


def known_tasks() -> list[Entry]:
    find('')
    return list(_index.values())


def index_of(roots: list[tasks.Tasks]) -> dict[str, Entry]:
    index: dict[str, Entry] = {}
    for registry in roots:
        for entry in registry._entries():
            other = index.setdefault(entry.full_name, entry)
            if other.task is not entry.task:
                if not tasks.is_loaded_again(entry.task, other.task):
                    raise tasks.taken_twice(entry.full_name, other.task, entry.task)
                continue
            index[entry.full_name] = entry  # several applications may share a task: the last one counts
    return index


def begin(env: Mapping[Any, Any], attempt: int, due: float | None = None) -> Run | None:
    """Returns a run of the task in a packet; None if no registry has that task."""
    name = env.get(b'task')
    entry = None if name is None else find(name.decode('utf-8', 'surrogateescape'))
    return None if entry is None else Run(entry, env, attempt, due)


class Run:
    """One run of one task.

    Call `perform` or `perform_async`, and then `succeeded` or `failed`. `failed` returns what becomes of the task: an answer with
    `error`, `retry` or `bury`, which src/runtime/worker/hosts/frames.ts reads.
    """

    def __init__(
        self,
        entry: Entry,
        env: Mapping[Any, Any],
        attempt: int,
        due: float | None = None,
        clock: Callable[[], datetime] = times.now,
        is_told: bool = True,
    ) -> None:
        """
        due      epoch seconds: the time for which this run was planned
        is_told  True if somebody else, a daemon or a test, reports a failure of this run
        """
        self._entry = entry
        self._clock = clock
        self._is_told = is_told
        self._begun_at = 0.0
        self._has_started = False
        self._outer = current.get()
        self._unreadable: ValueError | None = None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        body: bytes | None = None
        try:
            args, kwargs, body = arguments_of(env)
        except ValueError as error:
            self._unreadable = error
        task = entry.task
        asked = from_epoch(env[b'at']) if attempt == 1 and b'at' in env else None
        self.job = Job(
            id=id_in((env.get(b'id') or env.get('spooler_task_name', b'')).decode('utf-8', 'replace')),
            status=JobStatus.RUNNING,
            task_name=task.name,
            queue=task.queue,
            at=asked or (None if due is None else from_epoch(due)) or clock(),
            max_retries=task.max_retries,
            retries=attempt - 1,
            task_args=tuple(args),
            task_kwargs=kwargs,
            task_func=task.func,
            namespace=entry.namespace,
            headers=headers_of(env),
            body=body,
        )

    @property
    def is_async(self) -> bool:
        return self._entry.task.is_async

    def perform(self) -> Any:
        """Runs the task to its end, an `async def` too. Returns the value that its function returns."""
        self.start()
        if self.is_async:
            return event_loop().run_until_complete(self.perform_async())
        layers = self._entry.around_run
        if not layers:
            return self._call()
        with self._around(layers):
            return self._call()

    async def perform_async(self) -> Any:
        """Does the same as `perform`, in an event loop. Call it in an asyncio task of its own, so that each run has its own
        context."""
        self.start()
        from contextlib import AsyncExitStack

        async with AsyncExitStack() as stack:
            for layer in self._entry.around_run:
                context: Any = layer(self.job)
                if self.is_async and hasattr(context, '__aenter__'):
                    await stack.enter_async_context(context)
                else:
                    stack.enter_context(context)
            value = self._call()
            return await value if self.is_async else value

    def succeeded(self) -> None:
        self.job = self.job.having(status=JobStatus.SUCCEEDED)
        if 'logging' in sys.modules:
            from . import logs

            logs.succeeded(self.job, time.monotonic() - self._begun_at)
        self._send(signals.job_finished)
        current.set(self._outer)

    def failed(self, error: BaseException) -> dict[str, Any]:
        job = self.job
        if isinstance(error, AbortException) or not job.should_retry:
            self._tell(error, job.having(status=JobStatus.FAILED), None)
        else:
            at, wait = self._next_run(error)
            self._tell(error, job.having(status=JobStatus.WAITING, retries=job.retries + 1, at=at), wait)
        self._send(signals.job_finished)
        current.set(self._outer)
        return self._answer(error)  # last, because the answer has the time of the next run in seconds from now

    def died(self, how: str, again: float | None) -> None:
        """Tells receivers and log that the process of this run has died. Its daemon has settled the task already.

        how    the cause of the death
        again  epoch seconds: when the task runs again; None: it does not run again
        """
        job, at = self.job, None if again is None else from_epoch(again)
        self._begun_at = time.monotonic()  # the start of the run is unknown
        current.set(job)
        try:
            if at is None:
                return self._tell(WorkerDied(how), job.having(status=JobStatus.FAILED), None)
            wait = max(0.0, (at - self._clock()).total_seconds())
            status = JobStatus.WAITING if wait else JobStatus.QUEUED
            self._tell(WorkerDied(how), job.having(status=status, retries=job.retries + 1, at=at), wait)
        finally:
            current.set(self._outer)

    def _tell(self, error: BaseException, after: Job, wait: float | None) -> None:
        """Tells receivers and log that the run failed.

        after  the job after this run
        wait   seconds until the task runs again; None: it does not run again
        """
        attempt, self.job = self.job.attempt, after
        self._send(signals.job_failed if wait is None else signals.job_schedule_retry, err=error)
        if 'logging' in sys.modules:
            from . import logs

            seconds = time.monotonic() - self._begun_at
            logs.failed(after, attempt, seconds, error, wait, utils.own_trace(error), self._is_told)

    def _send(self, signal: signals.Signal, **details: Any) -> None:
        """Sends a signal. An error in the layers around the receivers is logged, as one in a receiver is, because neither is a
        failure of the task."""
        job = self.job
        layers = self._entry.around_signals if signal.has_receivers_for(job.namespace) else []
        if not layers:
            signal.send(job.namespace, job=job, **details)
            return
        try:
            with self._around(layers):
                signal.send(job.namespace, job=job, **details)
        except Exception:
            import logging

            logging.getLogger(signals.__name__).exception('what is around the receivers of %s failed', signal.name)

    def start(self) -> None:
        """Marks the start of the run, and sends `job_started`; a second call does nothing. `perform` and `perform_async` call it.
        A caller may call it earlier, outside the event loop, because receivers may use code that refuses to work in one."""
        if self._has_started:
            return
        self._has_started = True
        current.set(self.job)
        self._begun_at = time.monotonic()
        if 'logging' in sys.modules:
            from . import logs

            logs.started(self.job)
        self._send(signals.job_started)

    def _around(self, layers: list[Callable[[Job], ContextManager[Any]]]) -> ContextManager[Any]:
        """Returns a context manager that enters those of the middleware, the outermost first."""
        from contextlib import ExitStack, contextmanager

        @contextmanager
        def around() -> Any:
            with ExitStack() as stack:
                for layer in layers:
                    stack.enter_context(layer(self.job))
                yield

        return around()

    def _call(self) -> Any:
        if self._unreadable is not None:
            raise AbortException('the arguments cannot be read: %s' % self._unreadable)
        return self._entry.task.func(*self.job.task_args, **self.job.task_kwargs)

    def _next_run(self, error: BaseException) -> tuple[datetime, float]:
        """Returns the time of the next run, and the seconds from now until then."""
        now = self._clock()
        if isinstance(error, RetryException) and error.at is not None:
            return error.at, max(0.0, (error.at - now).total_seconds())
        first, cap = backoff()
        from datetime import timedelta
        from random import random

        wait = utils.retry_delay(self.job.attempt, first, cap, random())
        return now + timedelta(seconds=wait), wait

    def _answer(self, error: BaseException) -> dict[str, Any]:
        """Returns the answer for the worker. It asks for the time of the next run that receivers of signals have been told."""
        if isinstance(error, AbortException):
            return {'bury': _reason(error) or 'the task raised AbortException'}
        answer: dict[str, Any] = {'reason': _reason(error)} if isinstance(error, RetryException) else {'error': _explain(error)}
        if self.job.status is JobStatus.WAITING:
            answer['retry'] = max(0.0, (self.job.at - self._clock()).total_seconds())
        elif isinstance(error, RetryException):
            answer['retry'] = True  # max_retries is reached, so there is no time to ask for
        return answer


def backoff() -> tuple[float, float]:
    """Returns the first and the longest delay, in seconds, by the daemon's options; outside a daemon, the defaults."""
    daemon = sys.modules.get('spoold_host.named')
    return (utils.FIRST_DELAY, utils.LONGEST_DELAY) if daemon is None else daemon.backoff


def tell(name: str, worker: str) -> None:
    """Sends worker_started or worker_terminated to every namespace."""
    for namespace in dict.fromkeys(entry.namespace for entry in known_tasks()):
        getattr(signals, name).send(namespace, worker_name=worker)


_event_loop: AbstractEventLoop | None = None


def event_loop() -> AbstractEventLoop:
    """Returns the event loop of all tasks. There is one, so that objects that tasks share may belong to it."""
    global _event_loop
    if _event_loop is None or _event_loop.is_closed():
        import asyncio

        _event_loop = asyncio.new_event_loop()
        asyncio.set_event_loop(_event_loop)
    return _event_loop


def _reason(error: BaseException) -> str:
    """Returns the task's message; if another exception led to this one, with the traceback."""
    text = str(error)
    if error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        text += '\n' + _explain(error)
    return text


def _explain(error: BaseException) -> str:
    """Returns the traceback as text, beginning at the task's function."""
    return ''.join(traceback.format_exception(type(error), error, utils.own_trace(error))).rstrip()
