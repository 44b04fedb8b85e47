"""When a failed task runs again."""

from __future__ import annotations

import random
from datetime import timedelta

#: seconds, as spooler-retry-delay and spooler-backoff-cap are by default
FIRST_DELAY, LONGEST_DELAY = 3.0, 1200.0
#: larger ones overflow, and are beyond any cap
_MOST_DOUBLINGS = 200


def exponential_backoff(attempt: int, cap: float = LONGEST_DELAY) -> timedelta:
    """The delay after failed run number `attempt`, from 1: half of min(3 · 2^n, cap) seconds at least, and all of it at most.
    Chance decides, so that tasks that failed together do not retry together."""
    return timedelta(seconds=retry_delay(attempt, FIRST_DELAY, cap, random.random()))


def retry_delay(attempt: int, first: float, cap: float, chance: float) -> float:
    """Seconds. The daemon decides by the same function (src/base/task/retry-policy.ts): fixtures/named/delays.json has a table
    for both.

    chance  from 0 to 1
    """
    half = min(first * 2 ** min(attempt, _MOST_DOUBLINGS), cap) / 2
    return int((half + chance * half) * 1000 + 0.5) / 1000
