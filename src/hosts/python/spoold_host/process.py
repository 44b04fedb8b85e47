"""What kind of process this is: it dies with its worker, and leaves signals to it."""

import fcntl
import os
import signal
import sys

from .wire import LIFELINE_FD


def prepare():
    _die_with_worker()
    # A terminal and an init system signal everybody; it is the worker that decides. Functions, because what is ignored
    # stays so in every program that a task starts.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTSTP):
        signal.signal(number, _leave_to_worker)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    sys.argv = ['uwsgi']


def _leave_to_worker(number, frame):
    pass


def _die_with_worker():
    """The kernel sends SIGKILL when the other end of the lifeline is closed, whatever this process does then."""
    try:
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(LIFELINE_FD, fcntl.F_GETFL)
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETFL, flags | os.O_ASYNC)
    except (AttributeError, OSError):
        pass  # not Linux: the end of its tasks tells it


def live_on():
    """The worker ends in good order: there is time to leave."""
    try:
        flags = fcntl.fcntl(LIFELINE_FD, fcntl.F_GETFL)
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETFL, flags & ~os.O_ASYNC)
    except OSError:
        pass
