"""Times of tasks: a naive datetime is UTC."""

from __future__ import annotations

from datetime import datetime, timezone

#: seconds; what is larger is milliseconds (the year 9999)
_LIMIT = 253402300800


def to_utc(at: datetime) -> datetime:
    if not isinstance(at, datetime):
        raise TypeError('at: expected a datetime, got %r' % (at,))
    return at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at.astimezone(timezone.utc)


def from_epoch(seconds: float | bytes) -> datetime | None:
    """None if it is not a time."""
    try:
        return datetime.fromtimestamp(float(seconds), timezone.utc) if 0 <= float(seconds) < _LIMIT else None
    except (ValueError, OverflowError):
        return None


def to_text(at: datetime) -> str:
    """A plain decimal number, as the key `at` has it; exact, unlike a float."""
    epoch = at - datetime(1970, 1, 1, tzinfo=timezone.utc)
    if epoch.days < 0:
        raise ValueError('at: %s is before 1970' % at.isoformat())
    return ('%d.%06d' % (epoch.days * 86400 + epoch.seconds, epoch.microseconds)).rstrip('0').rstrip('.')


def now() -> datetime:
    return datetime.now(timezone.utc)
