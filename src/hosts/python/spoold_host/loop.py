"""Runs tasks and signals as they arrive, one at a time."""

import os
import struct
import sys
import threading
import traceback

from . import excepthook, named, process
from .output import NO_TASK
from .wire import DETAIL, DONE, RECALLED, SIGNAL_ENDED, error_bytes

TASK, RECALL, SIGNAL, DIED = 1, 2, 3, 4
HEAD = struct.Struct('<B2H2Id')
HEAD_BYTES = 21

# The page, one byte per task: src/runtime/ipc/host-page.ts
STARTED, OK, RETRY, IGNORE, ERROR, ANSWER = 1, 2, 3, 4, 5, 6
PRINTED = 8
SLOTS, RECALL_FLAG = 4032, 4032
SPOOL_OK, ANSWERED = -2, object()
SPOOL_RESULTS = {SPOOL_OK: OK, -1: RETRY, 0: IGNORE}


def env_of(message, name, name_end, block_end, body_end):
    """Returns the dictionary of a task, whose packet and body follow its name in the message."""
    env = {'spooler_task_name': name}
    key = name_end + 4  # the packet begins with a header of four bytes
    while key < block_end:
        key_end = key + 2 + (message[key] | message[key + 1] << 8)
        value = key_end + 2
        value_end = value + (message[key_end] | message[key_end + 1] << 8)
        env[message[key + 2 : key_end]] = message[value:value_end]
        key = value_end
    if body_end > block_end:
        env['body'] = message[block_end:body_end]
    return env


class Loop:
    def __init__(self, wire, settings, output):
        self.signals = {}
        self._wire = wire
        self._output = output
        self._home = settings['home'][0]
        chdir = settings.get('chdir')
        self._chdir = chdir[0] if chdir else None
        self._next = 0

    def enter(self, directory):
        try:
            os.chdir(self._chdir or os.path.join(self._home, directory))
        except OSError:
            pass  # a missing directory does not fail the task, as in uWSGI

    def serve(self):
        self._api = sys.modules['uwsgi'].__dict__
        for message in iter(self._wire.read_message, None):
            self._serve(message)
        process.live_on()
        process.call(named.terminated)

    def blame_signal(self, error):
        """Reports what a signal handler raised outside any task. In uWSGI the next task fails because of it."""
        self._blame('a signal handler', error)

    def blame_code(self, error):
        """Reports what code in the event loop raised outside any task. A task started that code, and may be waiting for it."""
        self._blame('code that a task left to the event loop', error)

    def _blame(self, culprit, error):
        try:
            os.write(2, error_bytes('%s raised an exception outside any task:\n%s\n' % (culprit, explain(error))))
        except OSError:
            pass  # a task closed standard error
        self._output.mark(NO_TASK)

    def _serve(self, message):
        # all names in the loop are local, because look-ups matter at this rate of tasks
        page, getpid, pid, results = self._wire.page, os.getpid, self._wire.pid, SPOOL_RESULTS
        api = self._api
        fence, mark, read_env, call = threading.Lock(), self._output.mark, env_of, process.call
        unpack, top, enter = HEAD.unpack_from, self._chdir or self._home, os.chdir
        number, at, end = self._next, 0, len(message)
        while at < end:
            kind, attempt, name_length, block_length, body_length, due_ms = unpack(message, at)
            at += HEAD_BYTES
            name_end = at + name_length
            block_end = name_end + block_length
            body_end = block_end + body_length
            if kind == TASK:
                slot = number % SLOTS
                page[slot] = STARTED
                with fence:  # a memory barrier: the worker sees the mark before this host reads the flag
                    pass
                if page[RECALL_FLAG]:
                    page[slot] = 0
                    return self._await_recall(number, message, at - HEAD_BYTES)
                name = message[at:name_end]
                directory, _, base = name.rpartition(b'/')
                env = read_env(message, base, name_end, block_end, body_end)
                try:
                    enter(top if not directory or self._chdir else self._home + b'/' + directory)
                except OSError:
                    pass  # a missing directory does not fail the task, as in uWSGI
                handler = api.get('spooler')
                try:
                    run = named.begin(env, attempt, due_ms / 1000) if b'task' in env else None
                    if run is not None:
                        answer = self._run_named(number, run)
                    else:
                        answer = 0 if handler is None else call(handler, env)
                except SystemExit:
                    raise
                except BaseException as error:
                    detail = explain(error)
                    excepthook.tell(error)
                    if getpid() != pid:
                        end_fork(detail)
                    result = self._failed(number, detail)
                else:
                    result = results.get(answer) if type(answer) is int else result_of(answer)
                    if result is None:
                        result = self._failed(number, wrong(answer))
                if getpid() != pid:
                    end_fork()
                env = run = answer = None  # the destructors of what they hold are the task's code
                page[slot] = result | PRINTED if mark(number) else result
                number += 1
            elif kind == SIGNAL:
                self.run_signal(name_length)
                body_end = at
            elif kind == DIED:
                self.tell_death(message, at - HEAD_BYTES)
            elif kind == RECALL:
                self._recalled(number)
            at = body_end
        self._next = number
        self._wire.send(DONE, number)

    def _run_named(self, number, run):
        """Runs a named task. SystemExit counts as its failure, unless a process that the task forked raises it."""
        try:
            process.call(run.perform)
        except BaseException as error:
            if os.getpid() != self._wire.pid:
                raise
            return self._answered(number, process.call(run.failed, error))
        if os.getpid() != self._wire.pid:
            os._exit(0)
        process.call(run.succeeded)
        return SPOOL_OK

    def _answered(self, number, answer):
        self._wire.send(DETAIL, number, named.answer(answer))
        return ANSWERED

    def _failed(self, number, detail):
        if os.getpid() == self._wire.pid:
            self._wire.send(DETAIL, number, error_bytes(detail))
        return ERROR

    def _await_recall(self, number, message, at):
        """Skips the tasks before the recall in the stream, because the worker has taken them back."""
        while message is not None:
            while at < len(message):
                kind, _, *lengths, _ = HEAD.unpack_from(message, at)
                if kind == DIED:
                    self.tell_death(message, at)
                at += HEAD_BYTES
                if kind in (TASK, DIED):
                    at += sum(lengths)
                elif kind == SIGNAL:
                    self.run_signal(lengths[0])
                else:
                    self._next = number
                    return self._recalled(number)
            message, at = self._wire.read_message(), 0
        process.live_on()
        sys.exit(0)

    def _recalled(self, number):
        self._wire.page[RECALL_FLAG] = 0
        self._wire.send(RECALLED, number)

    def run_signal(self, number):
        detail = ''
        try:
            os.chdir(self._home)  # regardless of spooler-chdir, as in uWSGI
        except OSError:
            pass
        try:
            process.call(self.signals[number], number)
        except SystemExit:
            raise
        except BaseException as error:
            detail = explain(error)
            excepthook.tell(error)
        if os.getpid() != self._wire.pid:
            end_fork(detail)
        self._output.mark(NO_TASK)
        self._wire.send(SIGNAL_ENDED, number, error_bytes(detail))

    def tell_death(self, message, at):
        """Tells the receivers of signals that the process of a task has died. Nothing that they do harms another task."""
        _, attempt, *lengths, due_ms = HEAD.unpack_from(message, at)
        at += HEAD_BYTES
        name_end = at + lengths[0]
        ref, again_ms, cause = message[at:name_end].split(b'\0', 2)
        env = env_of(message, ref.rpartition(b'/')[2], name_end, name_end + lengths[1], at + sum(lengths))
        self.enter(b'')
        try:
            run = named.begin(env, attempt, due_ms / 1000)
            if run is not None:
                process.call(run.died, cause.decode('utf-8', 'replace'), int(again_ms) / 1000 if again_ms else None)
        except BaseException:
            traceback.print_exc()
        if os.getpid() != self._wire.pid:
            os._exit(0)
        self._output.mark(NO_TASK)


def result_of(answer):
    """Returns the state on the page for what a handler returned; None if that is not a valid answer. An IntEnum counts as an int,
    as in uWSGI (PyLong_Check), even if it overrides arithmetic."""
    if answer is ANSWERED:
        return ANSWER
    if answer is False:
        return IGNORE
    if issubclass(type(answer), int) and answer is not True:  # isinstance would make a lazy object evaluate itself
        return SPOOL_RESULTS.get(int.__index__(answer))
    return None


def end_fork(error=''):
    """Ends a child process that a task or a function of a signal forked. It ends as any program, with 1 after an error."""
    try:
        if error:
            os.write(2, error_bytes(error + '\n'))
    finally:  # the write fails if the child has closed the descriptor
        os._exit(1 if error else 0)


def explain(error):
    try:
        return ''.join(traceback.format_exception(type(error), error, process.trace_of(error))).rstrip()
    except BaseException as other:  # formatting runs code of the exception's class
        return '%s, and no more can be said of it (%s)' % (type(error).__name__, type(other).__name__)


def wrong(answer):
    try:
        text = repr(answer)
    except BaseException:
        text = 'an object of type %s' % type(answer).__name__
    if len(text) > 80:
        text = text[:77] + '...'
    return (
        'the spooler function returned %s; expected uwsgi.SPOOL_OK (-2), uwsgi.SPOOL_RETRY (-1) or uwsgi.SPOOL_IGNORE (0), '
        'so the task is retried' % text
    )
