"""Calls sys.excepthook with what dictionary handlers and functions of signals raise, as uWSGI does. Error trackers set it."""

import sys

from . import process

_first, _plain = sys.excepthook, sys.__excepthook__
_is_in_log = False
#: hooks of libraries that print a better traceback to standard error and do nothing else
_PRINTERS = ('exceptiongroup_excepthook',)


def _print(*failure):
    """Stands for the first hook. A hook of the application calls this one at its end. Then it prints nothing, because the
    daemon's log has the traceback."""
    if not _is_in_log:
        _first(*failure)


def install():
    """Sets sys.excepthook, and sys.__excepthook__ if both were the same, because some user code compares the two: exceptiongroup
    does nothing if they differ. Must be called before user code is loaded."""
    if _first is _plain:
        sys.__excepthook__ = _print
    sys.excepthook = _print


def tell(error):
    """Calls the hook of the application, if there is one, with what user code has raised."""
    global _is_in_log
    hook = getattr(sys, 'excepthook', _print)  # a task may remove the hook
    if hook is _print or getattr(hook, '__name__', '') in _PRINTERS:
        return
    _is_in_log = True
    try:
        process.call(hook, type(error), error, process.trace_of(error))
    except BaseException as other:
        other.__suppress_context__ = True
        _plain(type(other), other.with_traceback(process.trace_of(other)), other.__traceback__)
    finally:
        _is_in_log = False
