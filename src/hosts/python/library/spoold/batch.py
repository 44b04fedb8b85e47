"""Many tasks that are stored at once."""

from .times import to_utc


class Batch:
    """Collects tasks for Tasks.schedule_batch. It can be used once."""

    def __init__(self):
        self._tasks = []
        self._is_used = False

    def schedule(self, task, *args, **kwargs):
        self._tasks.append((task, None, args, kwargs))

    def schedule_at(self, task, at, *args, **kwargs):
        self._tasks.append((task, to_utc(at), args, kwargs))

    def take(self):
        if self._is_used:
            raise RuntimeError('this batch has been scheduled: make a new one')
        return list(self._tasks)

    def used(self):
        self._is_used = True
