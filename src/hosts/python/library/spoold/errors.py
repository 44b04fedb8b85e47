"""What scheduling raises, and what a task may raise."""

from __future__ import annotations

from datetime import datetime

from .times import to_utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

    from .job import Job


class SpooldError(Exception):
    """What the errors of this library have in common."""


class UnknownTask(SpooldError, LookupError):
    """No task of this name, or no such function, is in the registry. Nothing was stored."""


class InvalidJobSignatureError(SpooldError, ValueError):
    """The arguments do not fit the function, or are not JSON. Nothing was stored."""


class DestinationUnknown(SpooldError, RuntimeError):
    """It is not known in which spool to store a task. Nothing was stored."""


class BatchError(SpooldError, RuntimeError):
    """Only a part of a batch was stored; its cause says why. The same batch may be scheduled again, and stores the rest."""

    def __init__(self, message: str, stored: Sequence[Job], unknown: Sequence[Job]) -> None:
        super().__init__(message)
        #: what was stored
        self.stored = list(stored)
        #: what may have been stored: a daemon went away before its answer came
        self.unknown = list(unknown)


class RetryException(Exception):
    """Raised in a task: run it again, at a time or after the backoff. It counts as one of max_retries."""

    def __init__(self, message: str, at: datetime | None = None) -> None:
        if isinstance(message, datetime):
            raise TypeError('RetryException(message, at): the message comes first, and the time is at=…; got %r' % (message,))
        super().__init__(message)
        self.at = None if at is None else to_utc(at)


class WorkerDied(SpooldError):
    """For receivers of `job_schedule_retry` and `job_failed`: the process died in which the task ran. It says how; another
    process sends the signal."""


class AbortException(Exception):
    """Raised in a task: never run it again. It becomes a dead letter."""
