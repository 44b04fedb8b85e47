"""What scheduling raises, and what a task may raise."""

from .times import to_utc


class UnknownTask(LookupError):
    """No task of this name, or no such function, is in the registry. Nothing was stored."""


class InvalidJobSignatureError(ValueError):
    """The arguments do not fit the function, or are not JSON. Nothing was stored."""


class DestinationUnknown(RuntimeError):
    """It is not known in which spool to store a task. Nothing was stored."""


class RetryException(Exception):
    """Raised in a task: run it again, at a time or after the backoff. It counts as one of max_retries."""

    def __init__(self, message, at=None):
        super().__init__(message)
        self.at = None if at is None else to_utc(at)


class AbortException(Exception):
    """Raised in a task: never run it again. It becomes a dead letter."""
