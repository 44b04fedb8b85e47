"""Standard output and standard error where several tasks run at a time. The text of each task is sent with the task's number."""

import contextvars
import io
import os
import sys
import threading

from .wire import PRINTED

_MAX_CHARS = 65536
#: the output of the task in whose context code runs
current = contextvars.ContextVar('spoold_printed')


def install(wire):
    sender = _Sender(wire)
    sys.stdout, sys.stderr = _Stream(sys.stdout, sender), _Stream(sys.stderr, sender)


class _Sender:
    """Sends printed text to the worker. It has a lock, because threads of tasks print, too."""

    def __init__(self, wire):
        self._wire = wire
        self.lock = threading.RLock()

    def send(self, number, text):
        for at in range(0, len(text), _MAX_CHARS):
            self._wire.send(PRINTED, number, text[at : at + _MAX_CHARS].encode('utf-8', 'backslashreplace'))

    @property
    def is_ours(self):
        return os.getpid() == self._wire.pid


class Printed:
    """The last line that a task has printed, while it is not complete."""

    def __init__(self, number):
        self.number = number
        self.text = ''


class _Stream(io.TextIOBase):
    """A stream in the place of a standard one. Outside tasks, and in processes that a task forked, it writes to that one."""

    def __init__(self, stream, sender):
        self._stream, self._sender = stream, sender

    def write(self, text):
        printed = current.get(None)
        if printed is None or printed.number is None or not self._sender.is_ours:
            return self._stream.write(text)
        with self._sender.lock:
            whole, newline, rest = (printed.text + text).rpartition('\n')
            printed.text = rest
            self._sender.send(printed.number, whole + newline)
        return len(text)

    def end(self, printed):
        """Sends the last line of an ended task. What is printed in the task's context from now on belongs to no task."""
        with self._sender.lock:
            self._sender.send(printed.number, printed.text)
            printed.number = None

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def flush(self):
        self._stream.flush()

    def fileno(self):
        return self._stream.fileno()

    def isatty(self):
        return self._stream.isatty()

    @property
    def encoding(self):
        return self._stream.encoding

    @property
    def errors(self):
        return self._stream.errors

    def writable(self):
        return True
