"""One scheduled task, as it is returned to who scheduled it, given to signals, and known while it runs."""

from __future__ import annotations

import contextvars
import enum
import sys
import uuid

from .hiding import HIDDEN, NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Callable

    from .hiding import Hide


class JobStatus(enum.Enum):
    #: it was not stored
    NOT_SET = 0
    #: it starts in the future
    WAITING = 1
    QUEUED = 2
    RUNNING = 3
    SUCCEEDED = 4
    #: it will not run again
    FAILED = 5


class _More:
    """What a job has beside Spinach's fields: programs loop over `__slots__`, and a body is nothing for them."""

    __slots__ = ('namespace', 'headers', 'body')


class Job(_More):
    """It does not change: the task runs elsewhere, and each signal gets the job as of then."""

    __slots__ = (
        'id',
        'status',
        'task_name',
        'queue',
        'at',
        'max_retries',
        'retries',
        'task_args',
        'task_kwargs',
        'task_func',
    )

    #: a UUID, the id that a caller gave, or the name of the file
    id: uuid.UUID | str | None
    status: JobStatus
    task_name: str
    queue: str
    #: when it starts at the earliest: aware, in UTC
    at: datetime
    max_retries: int | float
    #: how many runs there were before
    retries: int
    task_args: tuple[Any, ...]
    task_kwargs: dict[str, Any]
    task_func: Callable[..., Any]
    namespace: str
    #: text beside the arguments, for middleware
    headers: dict[str, str]
    #: bytes beside the arguments
    body: bytes | None

    def __init__(self, **fields: Any) -> None:
        for name in _FIELDS:
            object.__setattr__(self, name, fields[name])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError('a job does not change: the task runs in another process')

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __repr__(self) -> str:
        return 'Job <%s %s %s>' % (self.task_name, self.status.name, self.id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Job):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, ({name: getattr(self, name) for name in _FIELDS},)

    @property
    def attempt(self) -> int:
        """The number of its run, from 1."""
        return self.retries + 1

    @property
    def should_retry(self) -> bool:
        return self.retries < self.max_retries

    def fields(self) -> dict[str, Any]:
        """What may be shown to people: the fields of Spinach, without the values of the keys that the daemon hides
        (spooler-hide)."""
        shown = {name: getattr(self, name) for name in Job.__slots__ if name != 'task_func'}
        hide = hidden_keys()
        if hide.is_on:
            named = _named_arguments(self.task_func, len(self.task_args))
            shown['task_args'] = tuple(
                HIDDEN if name is not None and name in hide else hide.json(value) for name, value in zip(named, self.task_args)
            )
            shown['task_kwargs'] = hide.json(self.task_kwargs)
        return shown

    def having(self, **changes: Any) -> Job:
        """A job that differs in these fields."""
        return Job(**{name: changes.get(name, getattr(self, name)) for name in _FIELDS})


_FIELDS = Job.__slots__ + _More.__slots__


def _make(fields: dict[str, Any]) -> Job:
    return Job(**fields)


def hidden_keys() -> Hide:
    """Those of the daemon in which this runs."""
    daemon = sys.modules.get('spoold_host.named')
    if daemon is None or not daemon.hidden:
        return NOTHING
    from .hiding import Hide

    return Hide(daemon.hidden)


def _named_arguments(func: Any, count: int) -> list[str | None]:
    """The names of the parameters that take the first `count` arguments."""
    import inspect

    try:
        parameters = [each for each in inspect.signature(func).parameters.values() if each.kind < each.VAR_POSITIONAL]
    except (TypeError, ValueError, NameError):
        parameters = []
    names: list[str | None] = [each.name for each in parameters[:count]]
    return names + [None] * (count - len(names))


def id_in(text: str) -> uuid.UUID | str | None:
    """The id in a packet; None if there is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return text or None


#: of the run in whose context code runs
current: contextvars.ContextVar[Job | None] = contextvars.ContextVar('spoold_job', default=None)


def current_job() -> Job | None:
    """The running task; None outside of one."""
    return current.get()
