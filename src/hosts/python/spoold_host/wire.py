"""The bytes between a worker and its host. src/runtime/worker/hosts/frames.ts is the other side, and explains them."""

import mmap
import os
import struct
import threading

from .process import LIFELINE_FD, uninterrupted

TASKS_FD, CALLS_FD, PAGE_FD = 3, 4, 5
PAGE_BYTES = 4096
MAX_CALL_BYTES = 0x1FFFFFFF
#: characters: longer texts of errors are cut
_MAX_CHARS = 65536

READY, UNLOADABLE, DONE, DETAIL, RECALLED, SIGNAL_ENDED, OUTPUT, ENDED, PRINTED = range(1, 10)
#: the place of the flag on the page (src/runtime/ipc/host-page.ts)
OUTPUT_FLAG = 4033
_UP = struct.Struct('<4sBII')
_LENGTH = struct.Struct('<I')


class CallError(Exception):
    """The worker refused a request; the message is the worker's."""


class Wire:
    def __init__(self):
        for fd in (TASKS_FD, CALLS_FD, PAGE_FD, LIFELINE_FD):
            os.set_inheritable(fd, False)
        self.page = mmap.mmap(PAGE_FD, PAGE_BYTES)
        self.pid = os.getpid()
        self._tasks, self._calls = (os.fdopen(fd, 'rb', buffering=0, closefd=False) for fd in (TASKS_FD, CALLS_FD))
        self._lock = threading.Lock()

    def read_message(self):
        """Returns the next message; None if the worker is gone."""
        return _read_message(self._tasks)

    def read_settings(self):
        """Returns the settings, with the list of values of each name. They are the first message, which repeats a name for each
        of its values."""
        items = self.read_list()
        settings = {}
        for name, value in zip(items[::2], items[1::2]):
            settings.setdefault(name.decode(), []).append(value)
        return settings

    def read_list(self):
        return _unpack(self.read_message() or b'')

    def send(self, kind, number=0, payload=b''):
        uninterrupted(_write_all, TASKS_FD, _UP.pack(b'\xffSPL', kind, number, len(payload)) + payload)

    def call(self, name, *arguments):
        """Sends a request to the worker, waits, and returns the reply: a list of byte strings."""
        if os.getpid() != self.pid:
            raise CallError('a process that a task forked cannot speak for it; call uwsgi.%s in the task itself' % name)
        items = [name.encode(), *arguments]
        message = b''.join(_LENGTH.pack(len(item)) + item for item in items)
        if len(message) > MAX_CALL_BYTES:
            raise CallError('%d bytes are too many to be stored by a handler; it may have %d' % (len(message), MAX_CALL_BYTES))
        status, *answer = _unpack(uninterrupted(self._exchange, message))
        if status != b'ok':
            raise CallError(answer[0].decode('utf-8', 'replace'))
        return answer

    def _exchange(self, message):
        with self._lock:
            _write_all(CALLS_FD, _LENGTH.pack(len(message)) + message)
            answer = _read_message(self._calls)
        if answer is None:
            os._exit(1)  # the worker is gone
        return answer


def error_text(text):
    """Cuts a long text so that it still says what went wrong: in a traceback, the error is below the last frame."""
    if len(text) <= _MAX_CHARS:
        return text
    at = text.rfind('\n  File "')
    half = _MAX_CHARS // 2
    return '%s\n  …\n%s' % (text[: half - 5], text[max(at + 1, half) :][:half])


def error_bytes(text):
    return error_text(text).encode('utf-8', 'backslashreplace')


def _unpack(message):
    items, at = [], 0
    while at < len(message):
        (length,) = _LENGTH.unpack_from(message, at)
        items.append(message[at + 4 : at + 4 + length])
        at += 4 + length
    return items


def _write_all(fd, data):
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            _block(fd)
        except OSError:
            os._exit(1)  # the worker is gone, or a task has closed the descriptor, so the worker would hear of no task any more


def _read_message(file):
    head = _read_all(file, 4)
    return head and _read_all(file, int.from_bytes(head, 'little'))


def _read_all(file, length):
    """Returns as many bytes; None if the stream ends before that."""
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = file.readinto(view)
        if count is None:
            _block(file.fileno())
        elif count == 0:
            return None
        else:
            view = view[count:]
    return bytes(data)


def _block(fd):
    """Undoes that a task or a child process has made a descriptor non-blocking."""
    os.set_blocking(fd, True)
