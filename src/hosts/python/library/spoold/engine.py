"""Runs tasks in this process: a registry with workers and a spool in memory, for development and tests."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from datetime import datetime, timedelta

from . import run, signals
from .destination import DEFAULT_QUEUE
from .job import JobStatus
from .memory import MemoryBroker, in_seconds
from .tasks import DEFAULT_NAMESPACE, Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from queue import SimpleQueue
    from typing import Any, Iterator

    from .destination import Place
    from .memory import Stored
    from .tasks import Entry

#: seconds: the longest wait before the clock is read again, because the clock may be set
_LOOK_EVERY = 60


class ThreadWorkers:
    """A value for `workers_class`: threads are started at once, the event loop when a coroutine is due. With either value,
    functions run in threads, and coroutines in one event loop."""


class AsyncioWorkers:
    """A value for `workers_class`: the event loop is started at once, threads when a function is due."""


class Engine(Tasks):
    """A registry whose tasks workers in this process can run. For that, its place is a MemoryBroker. With any other place, it
    schedules tasks, and daemons run them."""

    def __init__(self, broker: Place, namespace: str = DEFAULT_NAMESPACE) -> None:
        super().__init__(namespace=None if namespace == DEFAULT_NAMESPACE else namespace, spooler=broker)
        self._workers: _Workers | None = None

    def attach_tasks(self, tasks: Tasks) -> None:
        if 'logging' in sys.modules and tasks._user() not in (None, self):
            from . import logs

            logs.attached_twice(tasks)
        self.use(tasks)

    def start_workers(
        self,
        number: int = 5,
        queue: str = DEFAULT_QUEUE,
        block: bool = True,
        stop_when_queue_empty: bool = False,
        workers_class: type[ThreadWorkers] | type[AsyncioWorkers] = ThreadWorkers,
    ) -> None:
        """Starts workers for a queue.

        number                 how many tasks run at a time
        block                  return only when the workers have stopped; SIGINT and SIGTERM stop them
        stop_when_queue_empty  stop the workers when no task is due
        """
        if self._workers is not None and self._workers.is_alive:
            raise RuntimeError('Workers are already running')
        if not isinstance(number, int) or number < 1:
            raise ValueError('start_workers: number: expected a whole number from 1, got %r' % (number,))
        if workers_class not in (ThreadWorkers, AsyncioWorkers):
            raise TypeError('start_workers: workers_class: expected ThreadWorkers or AsyncioWorkers, got %r' % (workers_class,))
        broker = self._spooler
        if not isinstance(broker, MemoryBroker):
            raise RuntimeError(
                'the tasks of %r are run by daemons: start one with `spoold app.ini`. Workers in this process have their '
                'tasks in memory: Engine(MemoryBroker())' % (broker,)
            )
        has_loop = workers_class is AsyncioWorkers
        if not block:
            self._workers = _Workers(self, broker, number, queue, stop_when_queue_empty, has_loop)
            return
        with _sigterm_as_sigint():
            try:
                with _signals_later():
                    self._workers = _Workers(self, broker, number, queue, stop_when_queue_empty, has_loop)
                self._workers.join()
            except KeyboardInterrupt:
                self.stop_workers()

    def stop_workers(self) -> None:
        """Stops the workers: they take no more tasks, and this waits for the running ones."""
        if self._workers is not None:
            self._workers.stop()


class _Workers:
    """The workers of an engine. One thread takes due tasks. Functions run in threads, coroutines in an event loop that has a
    thread of its own.

    States: taking → stopping, while running tasks come to their end → ended.
    """

    def __init__(
        self, engine: Engine, broker: MemoryBroker, number: int, queue: str, stops_when_empty: bool, has_loop: bool
    ) -> None:
        from queue import SimpleQueue

        self._engine, self._broker, self._number, self._queue = engine, broker, number, queue
        self._stops_when_empty = stops_when_empty
        self._is_stopping = False
        self._running = 0
        self._threads: list[threading.Thread] = []
        self._for_functions = 0
        self._functions = 0
        self._to_threads: SimpleQueue[tuple[Stored, Entry] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._coroutines: set[asyncio.Task[None]] = set()  # strong references, because the event loop only has weak ones
        self._repeated = {
            entry.full_name: (entry, broker.now() + _period_of(entry)) for entry in engine._entries() if _is_periodic(entry)
        }
        if has_loop:
            self._start_loop()
        else:
            for _ in range(number):
                self._start_thread()
        self._taker = threading.Thread(target=self._take, name='%s-arbiter' % engine.namespace)
        if 'logging' in sys.modules:
            from . import logs

            logs.workers_started(number, queue)
        self._taker.start()

    @property
    def is_alive(self) -> bool:
        return self._taker.is_alive()

    def join(self) -> None:
        self._taker.join()

    def stop(self) -> None:
        with self._broker.changed:
            self._is_stopping = True
            self._broker.changed.notify_all()
        if threading.current_thread() not in (self._taker, *self._threads):  # a task may stop its own workers
            self.join()

    def _take(self) -> None:
        try:
            while self._next():
                pass
            with self._broker.changed:
                while self._running > 0:
                    self._broker.changed.wait()
        finally:
            self._end()

    def _next(self) -> bool:
        """Starts the next due task that may run, or waits for a change. Returns False if the workers are to stop."""
        broker = self._broker
        with broker.changed:
            if self._is_stopping:
                return False
            self._repeat()
            entry: Entry | None = None

            def may_run(task: Stored, running: int) -> bool:
                nonlocal entry
                entry = self._engine._named(task.full_name)
                return entry is not None and running < (entry.task.max_concurrency or running + 1)

            task = broker.take(self._queue, may_run) if self._running < self._number else None
            if task is not None and entry is not None:
                self._running += 1
                self._give(task, entry)
                return True
            if self._stops_when_empty and self._running == 0:
                if 'logging' in sys.modules:
                    from . import logs

                    logs.workers_stop(self._queue)
                return False
            broker.changed.wait(self._patience())
        return True

    def _patience(self) -> float:
        now = self._broker.now()
        due = self._broker.next_due(self._queue) if self._running < self._number else None
        times = [at for at in (due, *(at for _, at in self._repeated.values())) if at is not None and at > now]
        return min([_LOOK_EVERY, *(in_seconds(at, now) for at in times)])

    def _repeat(self) -> None:
        """Schedules the periodic tasks whose period is over, unless the last one still waits, or runs and must not overlap."""
        now = self._broker.now()
        for name, (entry, at) in self._repeated.items():
            if at > now:
                continue
            self._repeated[name] = (entry, now + _period_of(entry))
            overlaps = bool(entry.task.periodic and entry.task.periodic['overlap'])
            if not self._broker.has(name, not overlaps):
                self._engine.schedule(name)

    def _give(self, task: Stored, entry: Entry) -> None:
        if not entry.task.is_async:
            self._functions += 1
            if self._functions > self._for_functions:
                self._start_thread()
            self._to_threads.put((task, entry))
            return
        loop = self._loop or self._start_loop()
        loop.call_soon_threadsafe(self._start_coroutine, loop, task, entry)

    def _start_thread(self) -> None:
        self._for_functions += 1
        name = '%s-worker-%d' % (self._engine.namespace, self._for_functions)
        thread = threading.Thread(target=self._serve, name=name)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        name = threading.current_thread().name
        signals.worker_started.send(self._engine.namespace, worker_name=name)
        while True:
            given = self._to_threads.get()
            if given is None:
                break
            task, entry = given
            one = _begin(task, entry, self._broker)
            try:
                one.perform()
            except BaseException as error:
                self._ended(task, one, error)
            else:
                self._ended(task, one, None)
        signals.worker_terminated.send(self._engine.namespace, worker_name=name)

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        import asyncio

        loop = self._loop = asyncio.new_event_loop()
        name = '%s-asyncio-worker' % self._engine.namespace

        def serve() -> None:
            asyncio.set_event_loop(loop)
            signals.worker_started.send(self._engine.namespace, worker_name=name)
            loop.run_forever()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            signals.worker_terminated.send(self._engine.namespace, worker_name=name)

        thread = threading.Thread(target=serve, name=name)
        self._threads.append(thread)
        thread.start()
        return loop

    def _start_coroutine(self, loop: asyncio.AbstractEventLoop, task: Stored, entry: Entry) -> None:
        coroutine = loop.create_task(self._run_coroutine(task, entry))
        self._coroutines.add(coroutine)
        coroutine.add_done_callback(self._coroutines.discard)

    async def _run_coroutine(self, task: Stored, entry: Entry) -> None:
        one = _begin(task, entry, self._broker)
        try:
            await one.perform_async()
        except BaseException as error:
            self._ended(task, one, error)
        else:
            self._ended(task, one, None)

    def _ended(self, task: Stored, one: run.Run, error: BaseException | None) -> None:
        try:
            settle(self._broker, task, one, error)
        finally:
            with self._broker.changed:
                self._running -= 1
                if not one.is_async:
                    self._functions -= 1
                self._broker.changed.notify_all()

    def _end(self) -> None:
        for _ in self._threads:
            self._to_threads.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()


def _begin(task: Stored, entry: Entry, broker: MemoryBroker) -> run.Run:
    return run.Run(entry, task.env, task.attempt, task.due.timestamp(), broker.now, is_told=False)


def settle(broker: MemoryBroker, task: Stored, one: run.Run, error: BaseException | None) -> None:
    """Ends a run: sends its signals, and tells the broker whether the task runs again."""
    retry_at: datetime | None = None
    try:
        if error is None:
            one.succeeded()
        else:
            one.failed(error)
            retry_at = one.job.at if one.job.status is JobStatus.WAITING else None
    finally:
        broker.ended(task, retry_at)


def _is_periodic(entry: Entry) -> bool:
    told = entry.task.periodic
    if told is not None and 'cron' in told and 'logging' in sys.modules:
        import logging

        logging.getLogger('spoold.worker').warning(
            'The task %s is scheduled by cron, which only daemons do: it does not run by itself here', entry.full_name
        )
    return told is not None and 'periodicity' in told


def _period_of(entry: Entry) -> timedelta:
    return timedelta(seconds=(entry.task.periodic or {})['periodicity'])


@contextlib.contextmanager
def _sigterm_as_sigint() -> Iterator[None]:
    """Makes SIGTERM raise KeyboardInterrupt, as SIGINT does: a service manager sends the one, a terminal the other."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Delays SIGINT and SIGTERM until the block has ended: one that came while threads start would leave threads that nobody
    ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))
    }
    heard: list[int] = []
    for number in before:
        signal.signal(number, lambda number, _frame: heard.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in heard[:1]:
        before[number](number, None)
