"""Reads the key `at` of a task as the daemon does (src/formats/protocol/at.ts). A number stays as it is; any other notation of
a time becomes a number."""

from __future__ import annotations

import json
import math
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta

#: epoch seconds at the end of the year 9999; larger numbers are refused, because they are probably milliseconds
_LAST_SECOND = 253402300799
_NUMBER = re.compile(r'-?[0-9]+(?:\.[0-9]*)?')
_DURATION = re.compile(r'(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+')
_PART = re.compile(r'([0-9.]+)(ms|[smhdw])')
_UNIT_SECONDS = {'ms': 0.001, 's': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}
_DATED = re.compile(
    r'(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?: ?(Z|UTC|[+-]\d\d(?::?\d\d)?))?)?', re.IGNORECASE | re.ASCII
)


class At:
    __slots__ = ('seconds', 'text')

    def __init__(self, seconds: int, text: bytes) -> None:
        self.seconds, self.text = seconds, text


def read_at(value: bytes) -> At | None:
    """Returns the time; None if the task runs at once. Raises ValueError."""
    if not value:
        return None
    text = value.decode('utf-8', 'replace')
    is_number = _NUMBER.fullmatch(text) is not None
    seconds = float(text) if is_number else _from_now(text[1:]) if text.startswith('+') else _dated(text)
    if seconds is None or not abs(seconds) <= _LAST_SECOND:
        hint = ', which is after the year 9999: are these milliseconds? Give seconds, or a Date' if is_number else ''
        raise ValueError(
            'at must be epoch seconds, a Date, an ISO 8601 date, or +1h30m from now, got %s%s' % (json.dumps(text, ensure_ascii=False), hint)
        )
    plain = '%d' % seconds if seconds == int(seconds) else repr(seconds)
    return At(math.floor(seconds), value if is_number else plain.encode())


def _from_now(text: str) -> float | None:
    if _NUMBER.fullmatch(text) and text[0] != '-':
        return math.ceil(time.time() + float(text))
    if not _DURATION.fullmatch(text):
        return None
    return math.ceil(time.time() + sum(float(amount) * _UNIT_SECONDS[unit] for amount, unit in _PART.findall(text)))


def _dated(text: str) -> float | None:
    """Returns the epoch seconds of an ISO 8601 date, in the zone of this machine unless the date names one; None if the text is
    not a date."""
    from datetime import datetime, timedelta, timezone

    found = _DATED.fullmatch(text)
    if found is None:
        return None
    *numbers, fraction, zone = found.groups()
    year, month, day, hour, minute, second = (int(each or 0) for each in numbers)
    try:
        at = datetime(year, month, day, hour, minute, second, int((fraction or '0')[:3].ljust(3, '0')) * 1000)
        if zone is not None:
            at = at.replace(tzinfo=timezone(timedelta(0) if zone.upper() in ('Z', 'UTC') else _offset(zone)))
        return at.timestamp()
    except ValueError:
        return None


def _offset(zone: str) -> timedelta:
    from datetime import timedelta

    digits = zone[1:].replace(':', '')
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == '-' else offset
