"""This process: it dies with its worker, and leaves signals to the worker."""

import _signal
import fcntl
import importlib
import os
import signal
import sys
import threading
from _thread import get_ident  # before user code patches threading

LIFELINE_FD = 6
_PR_SET_PDEATHSIG = 1
_HOST = os.path.dirname(__file__)
_IMPORTS = os.path.dirname(importlib.__file__)
_main_thread = get_ident()
_set_raw, _get_raw = _signal.signal, _signal.getsignal
#: the signals that arrived during a call of `uninterrupted`, each with its handler; None while there is no such call
_late = None
#: reports what a handler of a signal raised during the host's own work
_blame = None


def prepare():
    _die_with_worker()
    # Terminals and init systems signal every process, but the worker decides. The handlers are functions, because every program
    # that a task starts would inherit SIG_IGN.
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
    Wraps a function of users that handles a signal. Such a function runs in the main thread, between any two instructions, and
    raises an exception if it is a time limit. The exception may end user code, but not the host's own work.
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
            error.__traceback__ = error.__traceback__.tb_next  # drops this frame; Python before 3.11 keeps it
            raise
        return None


def guard(blame):
    """
    Guards the handlers of signals that are set from now on.

    blame  reports what a handler raised outside user code
    """
    global _blame
    _blame = blame
    _signal.signal, _signal.getsignal = _set, _get  # the functions of the module `signal` call these


def _set(number, handler):
    return _handler_in(_set_raw(number, _Guarded(handler) if callable(handler) else handler))


def _get(number):
    return _handler_in(_get_raw(number))


def _handler_in(handler):
    return handler.handler if type(handler) is _Guarded else handler


def call(function, *args):
    """Runs user code. `_is_of_users` looks for this function on the stack."""
    return function(*args)


async def call_async(function):
    return await function()


def run_forever(events, blame):
    """
    Runs an event loop in which user code starts more user code.

    blame  reports an exception of such code that ends the loop
    """
    while True:
        try:
            return events.run_forever()
        except SystemExit:
            raise
        except BaseException as error:
            blame(error)


def trace_of(error):
    """Returns the traceback of what user code raised, without the frames above it of the host and of Python's imports."""
    trace = error.__traceback__
    while trace is not None and _is_above(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_above(file):
    return os.path.dirname(file) in (_HOST, _IMPORTS) or file.startswith('<frozen importlib')


def _is_of_users(frame):
    above = frame
    while above is not None:
        if above.f_code in _CALLS:
            return True
        above = above.f_back
    return _outermost_directory(frame) not in _OURS


def _outermost_directory(frame):
    """Returns the directory of the outermost frame that is not the standard library's. It tells user code that `call` does not
    call: users start some in an event loop, in a greenlet, and in a thread that forks a process."""
    found = _HOST
    while frame is not None and frame.f_code is not run_forever.__code__:
        directory = os.path.dirname(frame.f_code.co_filename)
        if directory not in _STANDARD:
            found = directory
        frame = frame.f_back
    return found


_CALLS = (call.__code__, call_async.__code__)
_OURS = (_HOST, os.path.dirname(_HOST))
#: the directories of the modules that run event loops and threads
_STANDARD = (os.path.dirname(os.__file__), os.path.join(os.path.dirname(os.__file__), 'asyncio'))


def uninterrupted(function, *args):
    """Calls a function, and handles the signals that arrive meanwhile only when it has ended. A handler that raises would leave
    half of an exchange, and the other half to the next exchange."""
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
    """Handles each signal, even if the handler of another one raises. A signal that came twice is handled once, as any pending
    signal."""
    number, guarded = late.popitem()
    try:
        if late:
            _handle(late)
    finally:
        guarded(number, sys._getframe())


def _may_be_terminated():
    """Runs in a forked child. SIGTERM ends the child, because Pool.terminate() sends it and waits. No signal is held back any
    longer, because the thread that was in `uninterrupted` may not exist in the child."""
    global _late
    _late = None
    if signal.getsignal(signal.SIGTERM) is _leave_to_worker:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_through()


_fork = threading.local()


def _hold_back():
    """Blocks SIGTERM around a fork, so that one for the child arrives only when the child's handler is set."""
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
        pass  # not Linux: this process notices the worker's end when the stream of its tasks ends
    _send_at_death_of_worker(signal.SIGKILL)


def _send_at_death_of_worker(number):
    """Asks the kernel for a signal at the worker's death, 0: for none. It arrives even if a task has closed the lifeline;
    without it, the task would go on here while it runs elsewhere."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)
    except Exception:
        pass  # a Python without ctypes, or a system that forbids code made at run time: the lifeline has to do


def live_on():
    """Lets this process outlive its worker: the worker exits regularly, so this process has time to exit, too."""
    try:
        flags = fcntl.fcntl(LIFELINE_FD, fcntl.F_GETFL)
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETFL, flags & ~os.O_ASYNC)
    except OSError:
        pass
    _send_at_death_of_worker(0)
