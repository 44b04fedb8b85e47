"""Checks the options of tasks that the daemon schedules by itself. docs/tasks.md explains them."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_MISSED = ('one', 'skip')
#: the fields of a cron expression: name, least and largest number, names
_FIELDS = (
    ('minute', 0, 59, ()),
    ('hour', 0, 23, ()),
    ('day', 1, 31, ()),
    ('month', 1, 12, ('jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec')),
    ('weekday', 0, 7, ('sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat')),
)
_PART = re.compile(r'(?:[*?]|(\w+)(?:-(\w+))?)(?:/(\d+))?')


def checked(
    name: str,
    func: Callable[..., Any],
    periodicity: timedelta | float | None,
    cron: str | None,
    time_zone: str | None,
    missed: str | None,
    overlap: bool | None,
) -> dict[str, Any] | None:
    """Returns the options for the daemon, which checks the rest (src/runtime/tasks/periodic.ts); None for a task that is not
    periodic."""
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
    except ValueError:
        pass  # a builtin whose signature Python does not know
    except TypeError as error:
        raise ValueError('the task %s is periodic, so it is called without arguments: %s' % (name, error)) from None
    told = {'missed': missed or 'one', 'overlap': bool(overlap)}
    if periodicity is not None:
        return {**told, 'periodicity': seconds_of(name, periodicity)}
    if not isinstance(cron, str):
        raise TypeError("the task %s: cron must be an expression such as '0 3 * * *', got %r" % (name, cron))
    fault = _fault_of(cron)
    if fault is not None:
        raise ValueError('the task %s: cron: %s, got %r' % (name, fault, cron))
    if time_zone is None:
        return {**told, 'cron': cron}
    if not _is_zone(str(time_zone)):
        raise ValueError("the task %s: there is no time_zone %r, such as 'Europe/Paris'" % (name, time_zone))
    return {**told, 'cron': cron, 'timeZone': str(time_zone)}


def seconds_of(name: str, periodicity: timedelta | float) -> float:
    seconds = periodicity.total_seconds() if isinstance(periodicity, timedelta) else periodicity
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 1 <= seconds < float('inf'):
        raise ValueError('the task %s: periodicity must be a timedelta or seconds, 1 at least, got %r' % (name, periodicity))
    return seconds


def _fault_of(cron: str) -> str | None:
    """Returns what is certainly wrong with a cron expression, or None. The daemon knows more notations
    (src/runtime/schedule/cron.ts)."""
    words = cron.split()
    if len(words) == 1 and cron.strip().startswith('@') or len(words) in (6, 7):
        return None
    if len(words) != len(_FIELDS):
        return 'expected five fields: minute, hour, day, month, weekday'
    for word, (field, least, most, names) in zip(words, _FIELDS):
        for part in word.split(','):
            fault = _fault_of_part(part, least, most, names)
            if fault:
                return '%s for the %s' % (fault, field)
    return None


def _fault_of_part(part: str, least: int, most: int, names: tuple[str, ...]) -> str | None:
    if re.fullmatch('-[0-9]+', part):  # uWSGI's notation: -1 is any number, -n the numbers that n divides
        return None if any(each % int(part) == 0 for each in range(least, most + 1)) else 'expected -1, or -n for those that n divides'
    if re.search('[lw#+]', part, re.IGNORECASE) and part.lower()[:3] not in names:
        return None
    match = _PART.fullmatch(part)
    if match is None:
        return 'expected numbers, ranges and steps'
    for number in match.groups()[:2]:
        if number is None or number.lower()[:3] in names:
            continue
        if not number.isdigit() or not least <= int(number) <= most:
            return 'expected a number from %d to %d' % (least, most)
    return None


def _is_zone(name: str) -> bool:
    try:
        import zoneinfo
    except ImportError:
        return True  # before 3.9
    try:
        zoneinfo.ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return not zoneinfo.available_timezones()  # without any time zones on this machine, the daemon has to judge
    return True
