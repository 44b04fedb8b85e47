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
        self._tasks = os.fdopen(TASKS_FD, 'rb', buffering=65536, closefd=False)
        self._lock = threading.Lock()

    def read_message(self):
        """Returns the next message; None if the worker is gone."""
        head = self._tasks.read(4)
        if len(head) < 4:
            return None
        length = int.from_bytes(head, 'little')
        message = self._tasks.read(length)
        return message if len(message) == length else None

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
            (length,) = _LENGTH.unpack(_read_all(CALLS_FD, 4))
            return _read_all(CALLS_FD, length)


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
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        os._exit(1)  # the worker is gone, or a task has closed the descriptor, so the worker would hear of no task any more


def _read_all(fd, length):
    data = b''
    while len(data) < length:
        more = os.read(fd, length - len(data))
        if not more:
            os._exit(1)  # the worker is gone
        data += more
    return data
