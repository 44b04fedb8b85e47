"""Between the host and the library `spoold` (../library), which is loaded only if user code imports it."""

import json
import os
import sys

#: of the configuration (spooler-queue): the spool of each queue
queues = {}
#: the names that the worker knows; a task that is registered later has no limit there, so it does not run
_declared = frozenset()


def open_to(settings):
    options = [os.fsdecode(each) for each in settings.get('opt', ())]
    for name, value in zip(options[::2], options[1::2]):
        if name == 'spooler-queue' and '=' in value:
            queue, _, spool = value.partition('=')
            queues[queue] = spool


def store(packet):
    """The library calls it for a task that is scheduled here."""
    import uwsgi

    items = [each for pair in packet.pairs for each in pair]
    if packet.body:
        items += [b'body', packet.body]
    uwsgi._spool(items)


def begin(env, attempt):
    """The run of a named task; None if no registry had it when the code was loaded."""
    return sys.modules['spoold.run'].begin(env, attempt) if env.get(b'task') in _declared else None


def declared():
    """The tasks of all registries, for the worker; empty if there are none."""
    global _declared
    library = sys.modules.get('spoold.run')
    tasks = [] if library is None else library.known_tasks()
    _declared = frozenset(task.full_name.encode('utf-8', 'surrogateescape') for task in tasks)
    return encode([task.declaration() for task in tasks]) if tasks else b''


def runs_coroutines(settings):
    """Several at a time: the configuration asks for it, nothing but Python runs tasks, and one of them is an `async def`."""
    library = sys.modules.get('spoold.run')
    if library is None or 'alone' not in settings or not is_concurrent(settings):
        return False
    return any(task.is_async for task in library.known_tasks())


def is_concurrent(settings):
    return int(settings.get('concurrency', (b'1',))[0]) > 1


def event_loop():
    return sys.modules['spoold.run'].event_loop()


def started():
    _tell('worker_started')


def terminated():
    _tell('worker_terminated')


def _tell(name):
    library = sys.modules.get('spoold.run')
    if library is not None:
        library.tell(name, 'spoold-%d' % os.getpid())


def encode(value):
    """A lone surrogate becomes an escape of JSON."""
    return json.dumps(value, ensure_ascii=False).encode('utf-8', 'backslashreplace')
