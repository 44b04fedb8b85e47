"""Collects many tasks, to store them at once."""

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
    """A task of a batch. `task` is looked up in the registry when the batch is scheduled."""

    __slots__ = ('task', 'at', 'args', 'kwargs', 'options', 'job')

    def __init__(
        self, task: Schedulable, at: datetime | None, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
    ) -> None:
        self.task, self.at, self.args, self.kwargs, self.options = task, at, args, kwargs, options
        #: None until the task is stored
        self.job: Job | None = None


class Batch:
    """Collects tasks for Tasks.schedule_batch. A batch can be scheduled once. If storing failed, the same batch may be scheduled
    again, and stores the tasks that are not stored yet."""

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
        """Gives options to the task that is added next; see Tasks.with_options."""
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
