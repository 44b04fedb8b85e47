"""The process: it dies with its worker, and leaves signals to it."""

import _signal
import fcntl
import os
import signal
import sys
import threading
from _thread import get_ident  # before user code patches threading

LIFELINE_FD = 6
_PR_SET_PDEATHSIG = 1
_HOST = os.path.dirname(__file__)
_main_thread = get_ident()
_set_raw, _get_raw = _signal.signal, _signal.getsignal
#: signals that came amid what is not interrupted, and what handles them; None: nothing of the kind is done
_late = None
#: tells what a handler raised amid the host's own work
_blame = None


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


class _Guarded:
    """
    Stands for a function of users that handles a signal. It runs in the main thread, between any two instructions, and a time limit
    raises an exception in it: that ends what users run, and no work of the host.
    """

    __slots__ = ('handler',)

    def __init__(self, handler):
        self.handler = handler

    def __call__(self, number, frame):
        if _late is not None:
            _late[number] = self
            return None
        try:
            self.handler(number, frame)
        except SystemExit:
            raise
        except BaseException as error:
            if not _is_of_users(frame):
                return _blame(error)
            error.__traceback__ = error.__traceback__.tb_next  # without this line of ours; Python before 3.11 goes on with its own
            raise
        return None


def guard(blame):
    """
    From now on handlers of signals are guarded.

    blame  tells the exception of one that ran outside of what users run
    """
    global _blame
    _blame = blame
    _signal.signal, _signal.getsignal = _set, _get  # what those of the module signal call


def _set(number, handler):
    return _handler_in(_set_raw(number, _Guarded(handler) if callable(handler) else handler))


def _get(number):
    return _handler_in(_get_raw(number))


def _handler_in(handler):
    return handler.handler if type(handler) is _Guarded else handler


def call(function, *args):
    """Runs code of users."""
    return function(*args)


async def call_async(function):
    return await function()


def run_forever(events, blame):
    """
    Runs an event loop in which code of users starts more of it.

    blame  tells what such code raised that no loop survives
    """
    while True:
        try:
            return events.run_forever()
        except SystemExit:
            raise
        except BaseException as error:
            blame(error)


def trace_of(error):
    """The traceback of what code of users raised, without our frames above it."""
    trace = error.__traceback__
    while trace.tb_next is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == _HOST:
        trace = trace.tb_next
    return trace


def _is_of_users(frame):
    above = frame
    while above is not None:
        if above.f_code in _CALLS:
            return True
        above = above.f_back
    return _outermost_directory(frame) not in _OURS


def _outermost_directory(frame):
    """Of code that `call` does not call: users start some in an event loop, in a greenlet, and in a thread that forks a process."""
    found = _HOST
    while frame is not None and frame.f_code is not run_forever.__code__:
        directory = os.path.dirname(frame.f_code.co_filename)
        if directory not in _STANDARD:
            found = directory
        frame = frame.f_back
    return found


_CALLS = (call.__code__, call_async.__code__)
_OURS = (_HOST, os.path.dirname(_HOST))
#: what runs loops and threads
_STANDARD = (os.path.dirname(os.__file__), os.path.join(os.path.dirname(os.__file__), 'asyncio'))


def uninterrupted(function, *args):
    """Signals that come meanwhile are handled when all of it is done: half of it would leave its rest to the next one."""
    global _late
    if get_ident() != _main_thread or _late is not None:
        return function(*args)
    _late = late = {}
    try:
        return function(*args)
    finally:
        _late = None
        if late:
            _handle(late)


def _handle(late):
    """Each one, also if one before it raises. One that came twice comes once, as with all that wait."""
    number, guarded = late.popitem()
    try:
        if late:
            _handle(late)
    finally:
        guarded(number, sys._getframe())


def _may_be_terminated():
    """Whoever forks a process may end it: Pool.terminate() waits for that. Its other threads are left behind, amid what they did."""
    global _late
    _late = None
    if signal.getsignal(signal.SIGTERM) is _leave_to_worker:
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
