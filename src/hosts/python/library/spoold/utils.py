"""Functions that tasks and integrations may use besides registries, middleware and signals."""

from __future__ import annotations

import random
from datetime import timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Mapping

#: seconds: the defaults of spooler-retry-delay and spooler-backoff-cap
FIRST_DELAY, LONGEST_DELAY = 3.0, 1200.0
#: the first delay is doubled at most this often. More doublings could overflow, and the result would be beyond any cap
_MOST_DOUBLINGS = 200
#: modules whose frames come before the frame of the task's function in a traceback, such as middleware of the integrations
_AROUND = frozenset(
    ['contextlib', 'asyncio.base_events', *('spoold.contrib.' + name for name in ('flask', 'django', 'sentry', 'datadog'))]
)


def exponential_backoff(attempt: int, cap: float = LONGEST_DELAY) -> timedelta:
    """Returns the delay after failed run number `attempt`, from 1. It is a random share, from half to all, of
    min(3 · 2^attempt, cap) seconds, so that tasks that failed together do not retry together."""
    return timedelta(seconds=retry_delay(attempt, FIRST_DELAY, cap, random.random()))


def retry_delay(attempt: int, first: float, cap: float, chance: float) -> float:
    """Returns the delay in seconds, as the daemon's own function does (src/base/task/retry-policy.ts). fixtures/named/delays.json
    has a table for both.

    first   seconds: the shortest delay after the first run
    chance  a random number from 0 to 1
    """
    half = min(first * 2 ** min(attempt, _MOST_DOUBLINGS), cap) / 2
    return int((half + chance * half) * 1000 + 0.5) / 1000


def hide(value: Any) -> Any:
    """Returns a JSON value without the values of the keys that the daemon hides (spooler-hide)."""
    from .job import hidden_keys

    return hidden_keys().json(value)


def own_trace(error: BaseException) -> TracebackType | None:
    """Returns the traceback of an error, beginning at the function of the task."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_globals):
        trace = trace.tb_next
    return trace


def _is_ours(names: Mapping[str, Any]) -> bool:
    return names.get('__package__') in (__package__, 'spoold_host') or names.get('__name__') in _AROUND
