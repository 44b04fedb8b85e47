"""One call of a task, on its way to a spool."""

from __future__ import annotations

import sys
import uuid

from . import destination, packet, times
from .errors import InvalidJobSignatureError
from .job import Job, JobStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Mapping

    from .tasks import Entry


class Options:
    """The options of a call, beside its arguments."""

    __slots__ = ('id', 'headers', 'body')

    def __init__(self, id: str | None = None, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> None:
        if id is not None and (not isinstance(id, str) or not id):
            raise TypeError('id: expected a text, got %r' % (id,))
        if body is not None and not isinstance(body, (bytes, bytearray, memoryview)):
            raise TypeError('body: expected bytes, got %r' % (body,))
        self.id = id
        self.headers = dict(headers or {})
        self.body = None if body is None else bytes(body)


NO_OPTIONS = Options()


class Call:
    """One call of a task, as middleware around scheduling gets it. Middleware may change `headers`. `job` has the status NOT_SET
    until the task is stored."""

    __slots__ = ('entry', 'place', 'job', 'headers', 'packet', '_arguments', '_at', '_once')

    def __init__(
        self, entry: Entry, at: datetime | None, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
    ) -> None:
        """Checks the call. Raises whatever scheduling raises before it stores anything."""
        task = entry.task
        self.entry = entry
        self._check(args, kwargs)
        self._arguments = packet.Arguments(task.name, args, kwargs)
        self._at = None if at is None else times.to_text(at)
        self._once = options.id
        self.headers = dict(options.headers)
        self.place = destination.find(task.queue, entry.chain)
        self.packet: packet.Packet | None = None
        self.job = Job(
            id=uuid.uuid4() if options.id is None else options.id,
            status=JobStatus.NOT_SET,
            task_name=task.name,
            queue=task.queue,
            at=at or self.now(),
            max_retries=task.max_retries,
            retries=0,
            task_args=args,
            task_kwargs=kwargs,
            task_func=task.func,
            namespace=entry.namespace,
            headers=self.headers,
            body=options.body,
        )

    @property
    def task_name(self) -> str:
        return self.job.task_name

    @property
    def queue(self) -> str:
        return self.job.queue

    @property
    def args(self) -> tuple[Any, ...]:
        return self.job.task_args

    @property
    def kwargs(self) -> dict[str, Any]:
        return self.job.task_kwargs

    def now(self) -> datetime:
        """Returns the time by the clock of the call's place: a spool for tests has a clock of its own."""
        clock = getattr(self.place, 'now', times.now)
        now: datetime = clock()
        return now

    def pack(self) -> packet.Packet:
        """Returns the packet of this call, with the headers as middleware has left them."""
        job = self.job
        others = [('id', str(job.id))] + ([] if job.queue == destination.DEFAULT_QUEUE else [('queue', job.queue)])
        self.packet = packet.create(
            self.entry.full_name, self._arguments, others, self._at, self.headers, job.body, self._once
        )
        return self.packet

    def stored(self) -> Job:
        job = self.job
        status = JobStatus.WAITING if self._at is not None and job.at > self.now() else JobStatus.QUEUED
        self.job = job.having(status=status, headers=dict(self.headers))
        if 'logging' in sys.modules:
            from . import logs

            logs.scheduled(self.job)
        return self.job

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        task = self.entry.task
        signature = task.signature
        if signature is None:
            return
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidJobSignatureError('the arguments do not fit %s (%s): %s' % (task.name, task.place, error)) from None
