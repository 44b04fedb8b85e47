"""Many tasks that are stored at once."""

from __future__ import annotations

from .call import NO_OPTIONS, Options
from .times import now, to_utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Mapping

    from .job import Job
    from .tasks import Schedulable


class Waiting:
    """A task of a batch: which one it is, is asked where the batch is scheduled."""

    __slots__ = ('task', 'at', 'args', 'kwargs', 'options', 'job')

    def __init__(
        self, task: Schedulable, at: datetime | None, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
    ) -> None:
        self.task, self.at, self.args, self.kwargs, self.options = task, at, args, kwargs, options
        #: once it is stored
        self.job: Job | None = None


class Batch:
    """Collects tasks for Tasks.schedule_batch. It can be used once; but one that was not stored, or in part, may be scheduled
    again."""

    def __init__(self) -> None:
        self._tasks: list[Waiting] = []
        self._is_used = False

    def schedule(self, task: Schedulable, *args: Any, **kwargs: Any) -> None:
        self._tasks.append(Waiting(task, None, args, kwargs, NO_OPTIONS))

    def schedule_at(self, task: Schedulable, at: datetime, *args: Any, **kwargs: Any) -> None:
        self._tasks.append(Waiting(task, to_utc(at), args, kwargs, NO_OPTIONS))

    def with_options(
        self, *, id: str | None = None, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> WithOptions:
        """For the task that is added next; as Tasks.with_options."""
        return WithOptions(self, Options(id, headers, body))

    @property
    def jobs_to_create(self) -> list[tuple[Schedulable, datetime, tuple[Any, ...], dict[str, Any]]]:
        return [(each.task, each.at or now(), each.args, each.kwargs) for each in self._tasks]

    def take(self) -> list[Waiting]:
        if self._is_used:
            raise RuntimeError('this batch has been scheduled: make a new one')
        return list(self._tasks)

    def used(self) -> None:
        self._is_used = True


class WithOptions:
    def __init__(self, batch: Batch, options: Options) -> None:
        self._batch, self._options = batch, options

    def schedule(self, task: Schedulable, *args: Any, **kwargs: Any) -> None:
        self._batch._tasks.append(Waiting(task, None, args, kwargs, self._options))

    def schedule_at(self, task: Schedulable, at: datetime, *args: Any, **kwargs: Any) -> None:
        self._batch._tasks.append(Waiting(task, to_utc(at), args, kwargs, self._options))
