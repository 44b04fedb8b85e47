"""A job: one scheduled task, as scheduling returns it, as receivers of signals get it, and as the running task sees it."""

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
    #: the task is not stored
    NOT_SET = 0
    #: the task starts in the future
    WAITING = 1
    QUEUED = 2
    RUNNING = 3
    SUCCEEDED = 4
    #: the task failed and will not run again
    FAILED = 5


class _More:
    """The fields that Spinach's jobs do not have. They are apart because programs loop over `Job.__slots__` to show the fields,
    and a body is not for that."""

    __slots__ = ('namespace', 'headers', 'body')


class Job(_More):
    """One scheduled task, as of one moment. A job does not change, because the task runs elsewhere; each signal gets the job as
    of its own moment."""

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
    #: the earliest start: aware, in UTC
    at: datetime
    max_retries: int | float
    #: the number of earlier runs
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
        """The number of this run, from 1."""
        return self.retries + 1

    @property
    def should_retry(self) -> bool:
        return self.retries < self.max_retries

    def fields(self) -> dict[str, Any]:
        """Returns what may be shown to people: the fields of Spinach, without the values of the keys that the daemon hides
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
        """Returns a copy of this job in which these fields are different."""
        return Job(**{name: changes.get(name, getattr(self, name)) for name in _FIELDS})


_FIELDS = Job.__slots__ + _More.__slots__


def _make(fields: dict[str, Any]) -> Job:
    return Job(**fields)


def hidden_keys() -> Hide:
    """Returns the keys whose values this daemon hides (spooler-hide); none outside a daemon."""
    daemon = sys.modules.get('spoold_host.named')
    if daemon is None or not daemon.hidden:
        return NOTHING
    from .hiding import Hide

    return Hide(daemon.hidden)


def _named_arguments(func: Any, count: int) -> list[str | None]:
    """Returns the names of the parameters that take the first `count` arguments; None where there is no name."""
    import inspect

    try:
        parameters = [each for each in inspect.signature(func).parameters.values() if each.kind < each.VAR_POSITIONAL]
    except (TypeError, ValueError, NameError):
        parameters = []
    names: list[str | None] = [each.name for each in parameters[:count]]
    return names + [None] * (count - len(names))


def id_in(text: str) -> uuid.UUID | str | None:
    """Returns the id in a packet, as a UUID if it is one; None if the packet has no id."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return text or None


#: the job of the run in whose context code runs
current: contextvars.ContextVar[Job | None] = contextvars.ContextVar('spoold_job', default=None)


def current_job() -> Job | None:
    """Returns the job of the running task; None outside a task."""
    return current.get()
