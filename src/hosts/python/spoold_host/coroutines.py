"""Runs `async def` tasks side by side in one event loop. All other tasks and signals run in between, one at a time."""

import os
import sys
import traceback
from asyncio import _set_running_loop, current_task, new_event_loop, set_event_loop
from asyncio.tasks import _enter_task, _leave_task

from . import excepthook, named, process, streams
from .loop import ANSWER, DIED, ERROR, HEAD, HEAD_BYTES, IGNORE, OK, SIGNAL, TASK, end_fork, env_of, explain, result_of, wrong
from .wire import ENDED, TASKS_FD, error_bytes


class Coroutines:
    def __init__(self, wire, loop):
        self._wire = wire
        self._sync = loop
        self._api = sys.modules['uwsgi'].__dict__
        self._events = named.event_loop()
        self._other = None  # the event loop that functions get from asyncio.get_event_loop()
        self._received = bytearray()  # mutable, so that a large message grows in place
        self._next = 0
        self._running = set()  # strong references, because the event loop only has weak ones

    def serve(self):
        self._sync.enter(b'')
        self._events.add_reader(TASKS_FD, self._read)
        process.run_forever(self._events, self._sync.blame_code)
        process.live_on()
        process.call(named.terminated)

    def _read(self):
        more = os.read(TASKS_FD, 65536)
        if not more:
            return self._events.stop()
        self._received += more
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], 'little')
            if len(self._received) < end:
                return None
            message = bytes(memoryview(self._received)[4:end])
            del self._received[:end]
            self._take(message)

    def _take(self, message):
        at = 0
        while at < len(message):
            kind, attempt, *lengths, due_ms = HEAD.unpack_from(message, at)
            at += HEAD_BYTES
            if kind == TASK:
                name_end, block_end, body_end = at + lengths[0], at + sum(lengths[:2]), at + sum(lengths)
                name = message[at:name_end].rpartition(b'/')[2]
                env = env_of(message, name, name_end, block_end, body_end)
                task = self._events.create_task(self._run(self._next, env, attempt, due_ms / 1000))
                self._running.add(task)
                task.add_done_callback(self._ended)
                self._next += 1
                at = body_end
            elif kind == SIGNAL:
                self._outside(self._sync.run_signal, lengths[0])
            elif kind == DIED:
                self._outside(self._sync.tell_death, message, at - HEAD_BYTES)
                at += sum(lengths)

    def _ended(self, task):
        self._running.discard(task)
        try:
            task.result()
        except SystemExit:
            raise
        except BaseException:
            traceback.print_exc()
            sys.exit(1)  # the worker has not been told of the task's end, and would wait for it

    async def _run(self, number, env, attempt, due):
        printed = streams.Printed(number)
        streams.current.set(printed)
        try:
            run = named.begin(env, attempt, due)
            if run is None:
                result, detail = self._ask(env)
            else:
                result, detail = await self._run_named(run)
        except SystemExit:
            raise
        except BaseException as error:
            result, detail = ERROR, explain(error)
            excepthook.tell(error)
            if os.getpid() != self._wire.pid:
                end_fork(detail)
        if os.getpid() != self._wire.pid:
            end_fork()
        sys.stdout.end(printed)
        if isinstance(detail, str):
            detail = error_bytes(detail)
        self._wire.send(ENDED, number, b'%d' % result + detail)

    def _ask(self, env):
        handler = self._api.get('spooler')
        if handler is None:
            return IGNORE, b''
        answer = self._outside(process.call, handler, env)
        result = result_of(answer)
        return (ERROR, wrong(answer)) if result is None else (result, b'')

    async def _run_named(self, run):
        try:
            self._outside(process.call, run.start)
            if run.is_async:
                await process.call_async(run.perform_async)
            else:
                self._outside(process.call, run.perform)
        except BaseException as error:
            if os.getpid() != self._wire.pid:
                raise
            return ANSWER, named.answer(self._outside(process.call, run.failed, error))
        if os.getpid() != self._wire.pid:
            os._exit(0)
        self._outside(process.call, run.succeeded)
        return OK, b''

    def _outside(self, function, *args):
        """Calls a function as if no event loop ran, because Django's database and `asyncio.run` refuse to work where one runs."""
        task = current_task(self._events)
        if task is not None:
            _leave_task(self._events, task)  # since Python 3.14 a thread has at most one current task, whatever the event loop
        _set_running_loop(None)
        if self._other is None or self._other.is_closed():
            self._other = new_event_loop()
        set_event_loop(self._other)
        try:
            return function(*args)
        finally:
            set_event_loop(self._events)
            _set_running_loop(self._events)
            if task is not None:
                _enter_task(self._events, task)
