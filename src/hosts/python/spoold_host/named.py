"""Between the host and the library `spoold` (../library), which is loaded only if user code imports it."""

import json
import os
import sys

from .wire import error_text

#: of the configuration (spooler-queue): the spool of each queue
queues = {}
#: the keys whose values are hidden (spooler-hide)
hidden = []
#: seconds: the first delay of a task that failed, and the longest (spooler-retry-delay, spooler-backoff-cap)
backoff = (3.0, 1200.0)
#: the names that the worker knows; a task that is registered later has no limit there, so it does not run
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
    """What a task of this daemon schedules goes to the task's own spool."""

    key = 'own'

    def store(self, packets):
        import uwsgi

        uwsgi._spool_all([(packet.once, _items_of(packet)) for packet in packets])


def _items_of(packet):
    items = [each for pair in packet.pairs for each in pair]
    return items + [b'body', packet.body] if packet.body else items


own_spool = _OwnSpool()


def begin(env, attempt, due):
    """The run of a named task; None if no registry had it when the code was loaded."""
    return _library().begin(env, attempt, due) if env.get(b'task') in _declared else None


def _library():
    """What runs tasks; None if no code has registered any."""
    if 'spoold.tasks' not in sys.modules:
        return None
    import spoold.run

    return spoold.run


def declared():
    """The tasks of all registries, for the worker; empty if there are none."""
    global _declared
    library = _library()
    tasks = [] if library is None else library.known_tasks()
    _declared = frozenset(task.full_name.encode('utf-8', 'surrogateescape') for task in tasks)
    return encode([task.declaration() for task in tasks]) if tasks else b''


def runs_coroutines(settings):
    """Several at a time: the configuration asks for it, nothing but Python runs tasks, and one of them is an `async def`."""
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
    """What a run that failed has said."""
    return encode({key: error_text(value) if isinstance(value, str) else value for key, value in said.items()})


def encode(value):
    """A lone surrogate becomes an escape of JSON."""
    return json.dumps(value, ensure_ascii=False).encode('utf-8', 'backslashreplace')
