"""sys.excepthook, as in uWSGI, is told of what dictionary handlers and functions of signals raise: error trackers set it."""

import sys

from . import process

_first = sys.excepthook
_is_in_log = False


def _print(*failure):
    """What the application sets calls this one in the end; the daemon's log says the same."""
    if not _is_in_log:
        _first(*failure)


def install():
    """Before user code."""
    sys.excepthook = _print


def tell(error):
    """Of what has been raised."""
    global _is_in_log
    hook = sys.excepthook
    if hook is _print:
        return
    _is_in_log = True
    try:
        process.call(hook, type(error), error, process.trace_of(error))
    except BaseException as other:
        other.__suppress_context__ = True
        sys.__excepthook__(type(other), other.with_traceback(process.trace_of(other)), other.__traceback__)
    finally:
        _is_in_log = False
