"""Times of tasks. A naive datetime is taken as UTC."""

from __future__ import annotations

from datetime import datetime, timezone

#: epoch seconds at the end of the year 9999; a number that is not below this is not a time (it may be milliseconds)
_LIMIT = 253402300800


def to_utc(at: datetime) -> datetime:
    if not isinstance(at, datetime):
        raise TypeError('at: expected a datetime, got %r' % (at,))
    return at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at.astimezone(timezone.utc)


def from_epoch(seconds: float | bytes) -> datetime | None:
    """Returns the time, in UTC; None if the number is not a time."""
    try:
        return datetime.fromtimestamp(float(seconds), timezone.utc) if 0 <= float(seconds) < _LIMIT else None
    except (ValueError, OverflowError):
        return None


def to_text(at: datetime) -> str:
    """Returns the epoch seconds as a plain decimal number, for the key `at`. The text is exact, unlike a float."""
    epoch = at - datetime(1970, 1, 1, tzinfo=timezone.utc)
    if epoch.days < 0:
        raise ValueError('at: %s is before 1970' % at.isoformat())
    return ('%d.%06d' % (epoch.days * 86400 + epoch.seconds, epoch.microseconds)).rstrip('0').rstrip('.')


def now() -> datetime:
    return datetime.now(timezone.utc)
