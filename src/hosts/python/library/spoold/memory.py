"""A spool in the memory of this process, for development and tests. Nothing is written, so the tasks end with the process."""

from __future__ import annotations

import heapq
import itertools
import threading
from datetime import datetime, timedelta

from . import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from .packet import Packet


class Stored:
    """A task in memory, with the state that a daemon would keep for it."""

    __slots__ = ('packet', 'due', 'attempt', 'number', 'queue')

    def __init__(self, packet: Packet, due: datetime, number: int, queue: str) -> None:
        self.packet, self.due, self.number, self.queue = packet, due, number, queue
        #: the number of the next run, or of the running one, from 1
        self.attempt = 1

    def __lt__(self, other: Stored) -> bool:
        return (self.due, self.number) < (other.due, other.number)

    @property
    def full_name(self) -> str:
        return dict(self.packet.pairs)[b'task'].decode()

    @property
    def env(self) -> dict[Any, Any]:
        return self.packet.env(b'memory-%d' % self.number)


class MemoryBroker:
    """A spool in memory for any number of queues. Each queue has its tasks in the order in which they are due."""

    def __init__(self, now: Callable[[], datetime] = times.now) -> None:
        self.now = now
        #: notified when a task is added, and when a run has ended
        self.changed = threading.Condition(threading.RLock())
        self._waiting: dict[str, list[Stored]] = {}
        self._running: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._ids: set[str] = set()

    @property
    def key(self) -> str:
        return 'memory:%d' % id(self)

    def store(self, packets: Sequence[Packet]) -> None:
        self.add(packets)

    def add(self, packets: Sequence[Packet]) -> list[Stored]:
        """Stores packets, and returns the tasks that are new: a packet whose id is already stored is not stored again."""
        added = []
        with self.changed:
            for packet in packets:
                packet.is_stored = True
                if packet.once is not None and packet.once in self._ids:
                    continue
                if packet.once is not None:
                    self._ids.add(packet.once)
                queue = dict(packet.pairs).get(b'queue', b'default').decode()
                due = None if packet.at is None else times.from_epoch(float(packet.at))
                added.append(Stored(packet, due or self.now(), next(self._numbers), queue))
                self._put(added[-1])
            self.changed.notify_all()
        return added

    def take(self, queue: str, may_run: Callable[[Stored, int], bool]) -> Stored | None:
        """Returns the next due task of a queue that may run, and counts it as running until `ended`; None if there is none.

        may_run  gets a task, and the number of running tasks with its name
        """
        with self.changed:
            waiting, aside = self._waiting.get(queue, []), []
            found = None
            while waiting and found is None and waiting[0].due <= self.now():
                task = heapq.heappop(waiting)
                if may_run(task, self._running.get(task.full_name, 0)):
                    found = task
                else:
                    aside.append(task)
            for task in aside:
                heapq.heappush(waiting, task)
            if found is not None:
                self.begin(found)
            return found

    def begin(self, task: Stored) -> None:
        with self.changed:
            self._running[task.full_name] = self._running.get(task.full_name, 0) + 1

    def ended(self, task: Stored, retry_at: datetime | None) -> None:
        with self.changed:
            self._running[task.full_name] -= 1
            if retry_at is not None:
                task.due = retry_at
                task.attempt += 1
                self._put(task)
            self.changed.notify_all()

    def next_due(self, queue: str) -> datetime | None:
        """Returns the time at which the first task of a queue is due; None if no task waits there."""
        with self.changed:
            waiting = self._waiting.get(queue)
            return waiting[0].due if waiting else None

    def waiting(self) -> list[Stored]:
        """Returns the tasks of all queues that wait for a run, in the order in which they are due."""
        with self.changed:
            return sorted(task for tasks in self._waiting.values() for task in tasks)

    def has(self, full_name: str, is_running_enough: bool) -> bool:
        """True if a task of this name waits. With `is_running_enough`, also true if one runs."""
        with self.changed:
            runs = is_running_enough and self._running.get(full_name, 0) > 0
            return runs or any(task.full_name == full_name for task in self.waiting())

    def remove(self, task: Stored) -> None:
        with self.changed:
            self._waiting[task.queue].remove(task)
            heapq.heapify(self._waiting[task.queue])

    def flush(self) -> None:
        """Forgets all waiting tasks, and all ids."""
        with self.changed:
            self._waiting.clear()
            self._ids.clear()

    def _put(self, task: Stored) -> None:
        heapq.heappush(self._waiting.setdefault(task.queue, []), task)


def in_seconds(at: datetime, now: datetime) -> float:
    return max(0.0, (at - now) / timedelta(seconds=1))
