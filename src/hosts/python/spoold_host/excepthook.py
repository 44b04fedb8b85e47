"""sys.excepthook, as in uWSGI, is told of what dictionary handlers and functions of signals raise: error trackers set it."""

import sys

_first = sys.excepthook
_is_in_log = False


def _print(*failure):
    """What the application sets calls this one in the end; the daemon's log says the same."""
    if not _is_in_log:
        _first(*failure)


def install():
    """Before user code."""
    sys.excepthook = _print


def tell():
    """Of the exception that is being handled."""
    global _is_in_log
    hook = sys.excepthook
    if hook is _print:
        return
    kind, error, trace = sys.exc_info()
    _is_in_log = True
    try:
        hook(kind, error, trace.tb_next or trace)
    except BaseException as error:
        error.__suppress_context__ = True
        sys.__excepthook__(type(error), error.with_traceback(error.__traceback__.tb_next), error.__traceback__)
    finally:
        _is_in_log = False
