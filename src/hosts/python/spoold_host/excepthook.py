"""sys.excepthook, as in uWSGI, is told of what dictionary handlers and functions of signals raise: error trackers set it."""

import sys

from . import process

_first, _plain = sys.excepthook, sys.__excepthook__
_is_in_log = False
#: of libraries that write better tracebacks, to standard error only
_PRINTERS = ('exceptiongroup_excepthook',)


def _print(*failure):
    """What the application sets calls this one in the end; the daemon's log says the same."""
    if not _is_in_log:
        _first(*failure)


def install():
    """Before user code, some of which compares the two: exceptiongroup does nothing if they differ."""
    if _first is _plain:
        sys.__excepthook__ = _print
    sys.excepthook = _print


def tell(error):
    """Of what has been raised."""
    global _is_in_log
    hook = getattr(sys, 'excepthook', _print)  # a task may remove it
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
