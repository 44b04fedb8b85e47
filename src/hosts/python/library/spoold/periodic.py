"""Tasks that the daemon schedules by itself; docs/tasks.md explains the options."""

import inspect
from datetime import timedelta

_MISSED = ('one', 'skip')


def checked(name, func, periodicity, cron, time_zone, missed, overlap):
    """What a daemon is told (src/runtime/tasks/periodic.ts checks the rest); None if the task is not periodic."""
    if periodicity is None and cron is None:
        for option, value in (('time_zone', time_zone), ('missed', missed), ('overlap', overlap)):
            if value is not None:
                raise ValueError('the task %s: %s is of no use without periodicity or cron' % (name, option))
        return None
    if periodicity is not None and cron is not None:
        raise ValueError('the task %s: periodicity and cron cannot both be given' % name)
    if missed is not None and missed not in _MISSED:
        raise ValueError('the task %s: missed must be one of %s, got %r' % (name, ', '.join(_MISSED), missed))
    try:
        inspect.signature(func).bind()
    except TypeError as error:
        raise ValueError('the task %s is periodic, so it is called without arguments: %s' % (name, error)) from None
    told = {'missed': missed or 'one', 'overlap': bool(overlap)}
    if cron is None:
        return {**told, 'periodicity': _seconds(name, periodicity)}
    if not isinstance(cron, str):
        raise TypeError("the task %s: cron must be an expression such as '0 3 * * *', got %r" % (name, cron))
    return {**told, 'cron': cron, **({} if time_zone is None else {'timeZone': str(time_zone)})}


def _seconds(name, periodicity):
    seconds = periodicity.total_seconds() if isinstance(periodicity, timedelta) else periodicity
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 1 <= seconds < float('inf'):
        raise ValueError('the task %s: periodicity must be a timedelta or seconds, 1 at least, got %r' % (name, periodicity))
    return seconds
