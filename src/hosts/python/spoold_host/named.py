"""Connects the host with the library `spoold` (../library), which is loaded only if user code imports it."""

import json
import os
import sys

from .wire import error_text

#: the spool of each queue, by the configuration (spooler-queue)
queues = {}
#: the keys whose values are hidden (spooler-hide)
hidden = []
#: seconds: the first and the longest delay of a task that failed (spooler-retry-delay, spooler-backoff-cap)
backoff = (3.0, 1200.0)
#: the names that the worker knows. A task that is registered later does not run, because the worker has no limits for it
_declared = frozenset()


def open_to(settings):
    global backoff
    options = [os.fsdecode(each) for each in settings.get('opt', ())]
    for name, value in zip(options[::2], options[1::2]):
        if name == 'spooler-queue' and '=' in value:
            queue, _, spool = value.partition('=')
            queues[queue] = spool
        elif name == 'spooler-hide':
            hidden.extend(key.strip() for key in value.split(',') if key.strip())
    if 'backoff-ms' in settings:
        first, cap = (int(each) / 1000 for each in settings['backoff-ms'])
        backoff = (first, cap)


class _OwnSpool:
    """The place for what a task of this daemon schedules: the task's own spool."""

    key = 'own'

    def store(self, packets):
        import uwsgi

        uwsgi._spool_all([(packet.once, _items_of(packet)) for packet in packets])


def _items_of(packet):
    items = [each for pair in packet.pairs for each in pair]
    return items + [b'body', packet.body] if packet.body else items


own_spool = _OwnSpool()


def begin(env, attempt, due):
    """Returns the run of a named task; None if no registry had the task when the code was loaded."""
    return _library().begin(env, attempt, due) if env.get(b'task') in _declared else None


def _library():
    """Returns the module that runs named tasks; None if no code has loaded the registry."""
    if 'spoold.tasks' not in sys.modules:
        return None
    import spoold.run

    return spoold.run


def declared():
    """Returns the declarations of the tasks of all registries, for the worker; empty if there are none."""
    global _declared
    library = _library()
    tasks = [] if library is None else library.known_tasks()
    _declared = frozenset(task.full_name.encode('utf-8', 'surrogateescape') for task in tasks)
    return encode([task.declaration() for task in tasks]) if tasks else b''


def runs_coroutines(settings):
    """True if coroutines run several at a time: the configuration asks for it, only Python runs tasks, and one is an
    `async def`."""
    library = _library()
    if library is None or 'alone' not in settings or not is_concurrent(settings):
        return False
    return any(entry.task.is_async for entry in library.known_tasks())


def is_concurrent(settings):
    return int(settings.get('concurrency', (b'1',))[0]) > 1


def event_loop():
    return _library().event_loop()


def started():
    _tell('worker_started')


def terminated():
    _tell('worker_terminated')


def _tell(name):
    library = _library()
    if library is not None:
        library.tell(name, 'spoold-%d' % os.getpid())


def answer(said):
    """Encodes the answer of a failed run. Long texts are cut."""
    return encode({key: error_text(value) if isinstance(value, str) else value for key, value in said.items()})


def encode(value):
    """Encodes a value as JSON. A lone surrogate becomes an escape."""
    return json.dumps(value, ensure_ascii=False).encode('utf-8', 'backslashreplace')
