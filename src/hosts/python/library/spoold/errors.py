"""The errors that scheduling raises, and the exceptions that a task may raise."""

from __future__ import annotations

from datetime import datetime

from .times import to_utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

    from .job import Job


class SpooldError(Exception):
    """The base class of the errors of this library."""


class UnknownTask(SpooldError, LookupError):
    """No task of this name, or no such function, is in the registry. Nothing was stored."""


class InvalidJobSignatureError(SpooldError, ValueError):
    """The arguments do not fit the function, or are not JSON. Nothing was stored."""


class DestinationUnknown(SpooldError, RuntimeError):
    """It is not known in which spool to store a task. Nothing was stored."""


class BatchError(SpooldError, RuntimeError):
    """Only a part of a batch was stored; `__cause__` says why. The same batch may be scheduled again, and stores the rest."""

    def __init__(self, message: str, stored: Sequence[Job], unknown: Sequence[Job]) -> None:
        super().__init__(message)
        #: the jobs that were stored
        self.stored = list(stored)
        #: the jobs that may have been stored: a daemon went away before its answer came
        self.unknown = list(unknown)


class RetryException(Exception):
    """Raised in a task: run it again, at a time or after the backoff. It counts as one of max_retries."""

    def __init__(self, message: str, at: datetime | None = None) -> None:
        if isinstance(message, datetime):
            raise TypeError('RetryException(message, at): the message comes first, and the time is at=…; got %r' % (message,))
        super().__init__(message)
        self.at = None if at is None else to_utc(at)


class WorkerDied(SpooldError):
    """The process in which a task ran has died; the message says how. Receivers of `job_schedule_retry` and `job_failed` get this
    error, in another process."""


class AbortException(Exception):
    """Raised in a task: never run it again. The task becomes a dead letter."""
