"""Standard output and standard error as one pipe, which the worker reads; src/runtime/worker/hosts/host-output.ts explains it."""

import array
import fcntl
import os
import struct
import sys
import termios

from .wire import OUTPUT, OUTPUT_FLAG

NO_TASK = 0xFFFFFFFF
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 20


class Output:
    """The output of this process. If the worker cannot read the pipe, output goes where it went before, and is never marked."""

    def __init__(self, wire):
        self._page = wire.page
        self._streams = sys.stdout, sys.stderr
        self._pipe = None
        self._waiting = array.array('i', [0])  # ioctl fills this in place, which takes half the time
        reader, writer = os.pipe()
        wire.send(OUTPUT, 0, b'/proc/%d/fd/%d' % (os.getpid(), reader))
        answer = wire.read_list()
        os.close(reader)
        if answer:
            self._token = b'\0' + answer[0]
            self._take(writer)

    def _take(self, writer):
        try:
            fcntl.fcntl(writer, _F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass  # with a smaller pipe, the writer has to wait more often
        self._flush()
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        self._pipe = writer

    def mark(self, number):
        """Marks the end of a task's output. Returns False if there is no output to mark."""
        if self._pipe is None:
            return False
        self._flush()
        try:
            fcntl.ioctl(self._pipe, termios.FIONREAD, self._waiting)
        except OSError:
            return False  # a task closed the pipe; its answer counts nevertheless
        # the pipe before the flag: the flag then covers what the worker had taken out of the pipe by that time
        if not self._waiting[0] and not self._page[OUTPUT_FLAG]:
            return False
        mark = self._token + struct.pack('<I', number)
        try:
            os.write(self._pipe, mark)
        except BlockingIOError:  # the pipe is full, and a task or a child process has made it non-blocking
            os.set_blocking(self._pipe, True)
            os.write(self._pipe, mark)
        return True

    def _flush(self):
        stdout, stderr = self._streams
        _flush(stdout)
        _flush(stderr)
        # A task may have replaced the streams, even by objects that refuse to be compared with ==, or removed their names.
        now = getattr(sys, 'stdout', None)
        if now is not stdout:
            _flush(now)
        now = getattr(sys, 'stderr', None)
        if now is not stderr:
            _flush(now)


def _flush(stream):
    try:
        stream.flush()
    except Exception:
        pass  # a task closed the stream, or it is None
