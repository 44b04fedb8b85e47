"""The process: it dies with its worker, and leaves signals to it."""

import fcntl
import os
import signal
import sys
import threading
from _queue import SimpleQueue
from _signal import NSIG, getsignal  # what signal has makes enumerations of them, which takes long
from _thread import allocate_lock, get_ident, start_new_thread  # before user code patches threading

LIFELINE_FD = 6
_PR_SET_PDEATHSIG = 1
_main_thread = get_ident()
#: what the thread has to do that no signal handler interrupts; None: there is no such thread
_jobs = None


def prepare():
    _die_with_worker()
    # Terminals and init systems signal every process; the worker decides. Functions, because SIG_IGN would be inherited by
    # every program that a task starts.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTSTP):
        signal.signal(number, _leave_to_worker)
    os.register_at_fork(before=_hold_back, after_in_parent=_let_through, after_in_child=_may_be_terminated)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    sys.argv = ['uwsgi']


def _leave_to_worker(number, frame):
    pass


def uninterrupted(function, *args):
    """
    Signal handlers run in the main thread, between any two instructions, and a time limit raises an exception in one. What has to be
    done whole is then done in another thread, which goes on if whoever waits for it does not.
    """
    global _jobs
    if get_ident() != _main_thread or not any(map(_is_foreign, map(getsignal, range(1, NSIG)))) or sys.is_finalizing():
        return function(*args)
    if _jobs is None:
        jobs = SimpleQueue()
        try:
            start_new_thread(_do, (jobs.get,))
        except RuntimeError:  # the interpreter ends, or there are too many
            return function(*args)
        _jobs = jobs
    outcome, ended = [], allocate_lock()
    ended.acquire()
    _jobs.put((function, args, outcome, ended))
    ended.acquire()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _do(next_job):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))  # they are to interrupt what the main thread waits for
    while True:
        function, args, outcome, ended = next_job()
        try:
            outcome.append((function(*args), None))
        except BaseException as error:
            outcome.append((None, error))
        ended.release()
        del function, args, outcome, ended  # a large message is not kept


def _is_foreign(handler):
    return callable(handler) and handler is not _leave_to_worker


def _may_be_terminated():
    """Whoever forks a process may end it: Pool.terminate() waits for that. Its other threads are left behind."""
    global _jobs
    _jobs = None
    if getsignal(signal.SIGTERM) is _leave_to_worker:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_through()


_fork = threading.local()


def _hold_back():
    """A SIGTERM that comes right after the fork waits until it has its effect."""
    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))


def _let_through():
    signal.pthread_sigmask(signal.SIG_SETMASK, _fork.mask)


def _die_with_worker():
    """The kernel sends SIGKILL when the other end of the lifeline closes, whatever this process is doing."""
    try:
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(LIFELINE_FD, fcntl.F_GETFL)
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETFL, flags | os.O_ASYNC)
    except (AttributeError, OSError):
        pass  # not Linux: it notices when its tasks end
    _send_at_death_of_worker(signal.SIGKILL)


def _send_at_death_of_worker(number):
    """Also if a task has closed the lifeline: it would go on while it runs elsewhere."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)
    except Exception:
        pass  # a Python without it, or a system that lets nobody make code: there is the lifeline


def live_on():
    """The worker exits regularly, so there is time to exit, too."""
    try:
        flags = fcntl.fcntl(LIFELINE_FD, fcntl.F_GETFL)
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETFL, flags & ~os.O_ASYNC)
    except OSError:
        pass
    _send_at_death_of_worker(0)
