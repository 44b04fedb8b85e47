"""An application of Django. It has the tasks of all installed applications, in the web process and in the daemon.

    INSTALLED_APPS = [..., 'spoold.contrib.django']
    SPOOLD_ENQUEUE_TO = BASE_DIR / 'spool'

    from spoold.contrib.django import spoold, schedule_on_commit

    spoold.schedule('polls:close', question.pk)

`manage.py spoold` runs the daemon.
"""

from __future__ import annotations

import contextlib
import contextvars

from asgiref.sync import sync_to_async  # type: ignore[import-not-found, unused-ignore]
from django.conf import settings  # type: ignore[import-not-found, unused-ignore]
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections, reset_queries, transaction  # type: ignore[import-not-found, unused-ignore]

from ... import Tasks
from ...destination import VARIABLE, places_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Sequence

    from ... import Job
    from ...call import Call
    from ...tasks import Schedulable

__all__ = ['on_commit', 'schedule_on_commit', 'spoold']

#: the registry with the tasks of all installed applications
spoold = Tasks()

#: the database whose commit stores the scheduled tasks; None: they are stored at once
_database: contextvars.ContextVar[str | None] = contextvars.ContextVar('spoold_database', default=None)


@contextlib.contextmanager
def on_commit(using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Makes tasks that are scheduled in the `with` block wait for the commit of this database's transaction. They are checked at
    once, stored at the commit, and never stored after a rollback. Without a transaction they are stored at once."""
    token = _database.set(using)
    try:
        yield
    finally:
        _database.reset(token)


def schedule_on_commit(task: Schedulable, *args: Any, **kwargs: Any) -> Job:
    """Schedules a task that is stored when the current transaction is committed. Returns the job, with the status NOT_SET if the
    task waits for the commit."""
    with on_commit():
        return spoold.schedule(task, *args, **kwargs)


def _store_on_commit(calls: Sequence[Call], store: Callable[[], None]) -> None:
    using = _database.get()
    if using is None:
        store()
    else:
        transaction.on_commit(store, using=using)


@contextlib.contextmanager
def _with_connections(job: Job) -> Iterator[None]:
    """Resets database connections around a run, as Django does around a request. A run inside an open transaction, as in a test,
    leaves the connections alone."""
    if any(connection.in_atomic_block for connection in connections.all()):
        yield
        return
    reset_queries()
    close_old_connections()
    try:
        yield
    finally:
        for connection in connections.all():
            if connection.in_atomic_block:  # a transaction was never ended, and for Django closing the connection does not end it
                connection.close()
                del connections[connection.alias]
        close_old_connections()


class _Connections:
    """Does `_with_connections` around a run. Around a coroutine, it also closes old connections in the thread of `sync_to_async`,
    because Django has connections of its own there."""

    def __init__(self, job: Job) -> None:
        self._own = _with_connections(job)

    def __enter__(self) -> None:
        self._own.__enter__()

    def __exit__(self, *raised: Any) -> bool | None:
        return self._own.__exit__(*raised)

    async def __aenter__(self) -> None:
        self.__enter__()
        await sync_to_async(close_old_connections)()

    async def __aexit__(self, *raised: Any) -> bool | None:
        try:
            await sync_to_async(close_old_connections)()
        finally:
            result = self.__exit__(*raised)
        return result


spoold.middleware(run=_Connections, schedule=_store_on_commit)


def bind() -> None:
    """Binds the registry to the places and the namespace of the settings: at the start, and when a test overrides settings."""
    told = getattr(settings, VARIABLE, None)
    spoold.bind(enqueue_to=places_in(told) if told else {}, namespace=getattr(settings, 'SPOOLD_NAMESPACE', None) or '')
