"""Registries of tasks, and scheduling through them."""

from __future__ import annotations

import inspect
import math
import re
import sys
import weakref

from . import destination, periodic
from .batch import Batch
from .call import NO_OPTIONS, Call, Options
from .destination import DEFAULT_QUEUE
from .errors import BatchError, UnknownTask
from .times import to_utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from typing import Any, Callable, ContextManager, Iterator, Mapping, NoReturn, Sequence, TypeVar, Union, overload

    from .destination import Place
    from .job import Job

    #: a Task, its function, or its name
    Schedulable = Union[str, Callable[..., Any], 'Task']
    Function = TypeVar('Function', bound=Callable[..., Any])
    #: middleware around a run
    AroundRun = Callable[[Job], ContextManager[Any]]
    #: middleware around scheduling: it gets the calls, and the function that stores them
    AroundSchedule = Callable[[Sequence[Call], Callable[[], None]], None]

DEFAULT_NAMESPACE = 'spoold'
_NAME = re.compile(r'(?!_)[^\s]+')
_MAX_NAME_BYTES = 200
_UNSEEN: Any = object()

#: the number of changes to registries. An index of them, or a check, is out of date once this number has changed
changes = 0
_registries: list[Callable[[], Tasks | None]] = []
_around_each_run: list[AroundRun] = []
_around_each_schedule: list[AroundSchedule] = []


def registries() -> list[Tasks]:
    """Returns the registries of this process, in order of creation. A registry stays in processes that run tasks; elsewhere it is
    forgotten once nothing else refers to it."""
    return [each for each in (get() for get in _registries) if each is not None]


def _remember(registry: Tasks) -> None:
    global _registries
    _registries = [get for get in _registries if get() is not None]
    _registries.append((lambda: registry) if 'uwsgi' in sys.modules else weakref.ref(registry))


class Task:
    """A function that is registered under a name, with its options."""

    __slots__ = (
        'func',
        'name',
        'queue',
        'max_retries',
        'max_concurrency',
        'periodicity',
        'periodic',
        'registry',
        '_signature',
        '_checked_at',
    )

    def __init__(
        self,
        func: Callable[..., Any],
        name: str,
        queue: str,
        max_retries: int | float,
        max_concurrency: int | None,
        periodicity: timedelta | float | None,
        periodic: dict[str, Any] | None,
        registry: Tasks,
    ) -> None:
        self.func, self.name, self.queue, self.registry = func, name, queue, registry
        self.max_retries, self.max_concurrency = max_retries, max_concurrency
        self.periodicity, self.periodic = periodicity, periodic
        self._signature: Any = _UNSEEN
        self._checked_at = -1

    def __repr__(self) -> str:
        return 'Task <%s %s>' % (self.name, self.place)

    @property
    def task_name(self) -> str:
        return self.name

    @property
    def signature(self) -> inspect.Signature | None:
        """The signature of the function; None if Python does not know it, as of `max`."""
        if self._signature is _UNSEEN:
            self._signature = _signature_of(self.func)
        signature: inspect.Signature | None = self._signature
        return signature

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.func)

    @property
    def place(self) -> str:
        """The file and line of the function, for people."""
        code = getattr(_innermost(self.func), '__code__', None)
        return repr(self.func) if code is None else '%s:%d' % (code.co_filename, code.co_firstlineno)


class Entry:
    """A task as a registry knows it. Another registry may know the same task by another name."""

    __slots__ = ('task', 'chain')

    def __init__(self, task: Task, chain: tuple[Tasks, ...]) -> None:
        self.task = task
        #: the registries from the outermost one to the task's own; each uses the next
        self.chain = chain

    @property
    def namespace(self) -> str:
        return _namespace_of(self.chain) or DEFAULT_NAMESPACE

    @property
    def full_name(self) -> str:
        """The name of the task in packets."""
        return _prefix_of(self.chain) + self.task.name

    def declaration(self) -> dict[str, Any]:
        """Returns what the worker of a daemon needs to know of the task (src/runtime/worker/hosts/host.ts)."""
        task = self.task
        return {
            'name': self.full_name,
            'maxRetries': -1 if task.max_retries == math.inf else task.max_retries,
            'maxConcurrency': task.max_concurrency,
            'queue': task.queue,
            'periodic': task.periodic,
            'place': task.place,
            'isAsync': task.is_async,
        }

    @property
    def around_run(self) -> list[AroundRun]:
        return _around_each_run + [layer for registry in self.chain for layer in registry._around_run]

    @property
    def around_signals(self) -> list[AroundRun]:
        return [layer for registry in self.chain for layer in registry.around_signals]


class Tasks:
    """A registry of tasks. The first four options are defaults for its tasks.

    queue            a name for a spool, see `queues`
    max_retries      how often a task runs again after a failure; unset or 0: it runs at most once
    periodicity      see `add`
    max_concurrency  see `add`
    namespace        a prefix for the names of the tasks, and the first argument of their signals
    spooler          the spool directory, or the address of a daemon's socket, for tasks without a queue
    queues           a dictionary: the spool directory, or the address, for each queue
    """

    def __init__(
        self,
        queue: str | None = None,
        max_retries: int | float | None = None,
        periodicity: timedelta | float | None = None,
        max_concurrency: int | None = None,
        *,
        namespace: str | None = None,
        spooler: Place | None = None,
        queues: Mapping[str, Place] | None = None,
    ) -> None:
        #: the queue of tasks that name none
        self.queue = DEFAULT_QUEUE if queue is None else _checked('a queue', queue)
        self.max_retries = None if max_retries is None else _checked_retries(max_retries)
        self.periodicity = periodicity
        self.max_concurrency = _checked_concurrency(max_concurrency)
        self._namespace: str | None = None
        self._spooler: Any = None
        self._queues: dict[str, Any] = {}
        self._tasks: dict[str, Task] = {}
        self._by_function: dict[Any, Task] = {}
        self._used: list[Tasks] = []
        self._user: Callable[[], Tasks | None] = _nobody
        self._around_run: list[AroundRun] = []
        #: layers like those of `middleware(run=…)`, which extensions put around the receivers of a signal
        self.around_signals: list[AroundRun] = []
        self._around_schedule: list[AroundSchedule] = []
        #: in a test, the object that takes the place of all spools
        self._stand_in: Any = None
        self.bind(namespace=namespace, spooler=spooler, queues=queues)
        _remember(self)

    def __repr__(self) -> str:
        return 'Tasks <%s: %s>' % (self.namespace, ', '.join(self.names) or 'none')

    @property
    def namespace(self) -> str:
        return _namespace_of(self._chain) or DEFAULT_NAMESPACE

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks by name, including those of the registries that this one uses."""
        return {name: task for registry, _ in self._tree(self._chain) for name, task in registry._tasks.items()}

    @property
    def names(self) -> list[str]:
        return list(self.tasks)

    def get(self, task: Schedulable) -> Task:
        """Returns the task with this name or this function. Raises UnknownTask."""
        return self._find(task).task

    def bind(
        self,
        *,
        namespace: str | None = None,
        spooler: Place | None = None,
        queues: Mapping[str, Place] | None = None,
        enqueue_to: Place | Mapping[str, Place] | None = None,
    ) -> Tasks:
        """Sets options of `Tasks(…)` later, because an application may know them only when it has read its settings.

        namespace   as in `Tasks(…)`; '' for none
        spooler     as in `Tasks(…)`
        queues      as in `Tasks(…)`
        enqueue_to  instead of spooler and queues: a place, or several with their queues, as the environment variable
                    SPOOLD_ENQUEUE_TO has them. {} removes all places
        """
        if enqueue_to is not None:
            places = destination.places_in(enqueue_to, 'enqueue_to')
            self._spooler, queues = places.pop(DEFAULT_QUEUE, None), places
        if namespace is not None:
            self._namespace = None if namespace == '' else _checked('a namespace', namespace)
        if spooler is not None:
            self._spooler = spooler
        if queues is not None:
            self._queues = destination.checked_queues(queues)
        _changed()
        return self

    def use(self, *others: Tasks) -> Tasks:
        """Adds the tasks of other registries, including those that are registered there later. The other registries keep their
        defaults, and inherit namespace, places and middleware of this one. Raises ValueError if two tasks have one name."""
        for other in others:
            if not isinstance(other, Tasks):
                raise TypeError('expected Tasks, got %r' % (other,))
            if any(registry is self for registry, _ in other._tree(())):
                raise ValueError('a registry cannot use itself')
            if other in self._used:
                continue
            root = self._chain[0]
            taken = {entry.full_name: entry.task for entry in root._entries()}
            for entry in other._entries(self._chain):
                known = taken.get(entry.full_name, entry.task)
                if known is not entry.task and not is_loaded_again(entry.task, known):
                    raise taken_twice(entry.full_name, known, entry.task)
            self._used.append(other)
            other._user = weakref.ref(self)
            _changed()
        return self

    def update(self, tasks: Tasks) -> None:
        self.use(tasks)

    def middleware(self, *, run: AroundRun | None = None, schedule: AroundSchedule | None = None) -> Tasks:
        """Adds code around the runs and the scheduling of the tasks of this registry and of the registries that it uses.

        run       a function that gets the job, and returns a context manager. The context managers of the outermost registry are
                  entered first. An exception in one is a failure of the task
        schedule  a function that gets a list of calls, whose headers it may change, and a function without arguments that
                  stores them
        """
        _add_layers(self._around_run, run, self._around_schedule, schedule)
        return self

    if TYPE_CHECKING:

        @overload
        def task(self, func: Function) -> NoReturn: ...

        @overload
        def task(
            self,
            func: None = None,
            name: str = ...,
            queue: str | None = None,
            max_retries: int | float | None = None,
            periodicity: timedelta | float | None = None,
            max_concurrency: int | None = None,
            *,
            cron: str | None = None,
            time_zone: str | None = None,
            missed: str | None = None,
            overlap: bool | None = None,
        ) -> Callable[[Function], Function]: ...

        @overload
        def task(
            self,
            func: Function,
            name: str,
            queue: str | None = None,
            max_retries: int | float | None = None,
            periodicity: timedelta | float | None = None,
            max_concurrency: int | None = None,
            *,
            cron: str | None = None,
            time_zone: str | None = None,
            missed: str | None = None,
            overlap: bool | None = None,
        ) -> Function: ...

        def task(self, func: Any = None, name: Any = None, *args: Any, **options: Any) -> Any: ...

    else:

        def task(self, func=None, name=None, *args, **options):
            """A decorator that registers a function. The function stays as it is, and gets an attribute `task_name`. The options
            are those of `add`."""
            if isinstance(func, str):
                raise ValueError('a task needs a name: did you mean task(name=%r)?' % func)
            if func is None:
                return lambda given: self.task(given, name, *args, **options)
            self.add(func, name, *args, **options)
            try:
                func.task_name = name
            except (AttributeError, TypeError):
                pass  # the function takes no attributes, such as a method
            return func

    def add(
        self,
        func: Callable[..., Any],
        name: str | None = None,
        queue: str | None = None,
        max_retries: int | float | None = None,
        periodicity: timedelta | float | None = None,
        max_concurrency: int | None = None,
        *,
        cron: str | None = None,
        time_zone: str | None = None,
        missed: str | None = None,
        overlap: bool | None = None,
        **unknown: NoReturn,
    ) -> None:
        """Registers a function.

        max_concurrency  how many tasks of this name run at a time, over all processes and daemons of their spool;
                         it needs a positive max_retries, here or in the registry
        periodicity      the period after which the daemon schedules the task by itself: a timedelta, or seconds
        cron, time_zone  a cron expression, at whose times the daemon schedules the task by itself, in a zone such as
                         'Europe/Paris'
        missed           'one' (the default): the times at which no daemon ran are made up for by one run; 'skip': by none
        overlap          True: schedule the task even while its last run is still running

        queue and max_retries are explained at `Tasks`.
        """
        if unknown:
            raise TypeError('the task %s: %s' % (name, _meant(next(iter(unknown)))))
        if name is None:
            raise ValueError('a task needs a name: task(name=…)')
        if not callable(func):
            raise TypeError('expected a function for the task %s, got %r' % (name, func))
        if periodicity is None and cron is None:
            periodicity = self.periodicity
        if max_concurrency is None:
            max_concurrency = self.max_concurrency
        task = Task(
            func,
            _checked('a task', name),
            self.queue if queue is None else _checked('a queue', queue),
            (self.max_retries or 0) if max_retries is None else _checked_retries(max_retries),
            _checked_concurrency(max_concurrency),
            periodicity,
            periodic.checked(name, func, periodicity, cron, time_zone, missed, overlap),
            self,
        )
        if max_concurrency is not None and not task.max_retries:
            raise ValueError('the task %s: max_concurrency needs a positive max_retries' % name)
        entry = Entry(task, self._chain)
        taken = self._chain[0]._named(entry.full_name)
        if taken is not None and not is_loaded_again(task, taken.task):
            raise taken_twice(entry.full_name, taken.task, task)
        self._tasks[name] = task
        try:
            self._by_function[func] = task
        except TypeError:
            pass  # the function has no hash, so the task is found by its name
        _changed()

    def schedule(self, task: Schedulable, *args: Any, **kwargs: Any) -> Job:
        """Stores a task that runs as soon as possible. `task` is a name, a function, or a Task."""
        return self._schedule_one(task, None, args, kwargs, NO_OPTIONS)

    def schedule_at(self, task: Schedulable, at: datetime, *args: Any, **kwargs: Any) -> Job:
        """Stores a task that runs no earlier than at this time: a datetime, which is taken as UTC if it is naive."""
        return self._schedule_one(task, _checked_time(task, at), args, kwargs, NO_OPTIONS)

    def with_options(
        self, *, id: str | None = None, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> WithOptions:
        """Gives options to one call: `tasks.with_options(id='invoice-17').schedule(send_invoice, 17)`.

        id       the task is stored once, however often it is scheduled with this id. Ids need a spool directory
        headers  text beside the arguments; the task reads it as `current_job().headers`
        body     bytes beside the arguments, of any size; the task reads them as `current_job().body`
        """
        return WithOptions(self, Options(id, headers, body))

    def schedule_batch(self, batch: Batch) -> list[Job]:
        """Stores all tasks of a batch, and returns their jobs. All are checked before the first one is stored."""
        if not isinstance(batch, Batch):
            raise TypeError('schedule_batch: expected a Batch, got %r' % (batch,))
        waiting = batch.take()
        calls = {
            i: self._call(each.task, each.at, each.args, each.kwargs, each.options)
            for i, each in enumerate(waiting)
            if each.job is None
        }
        try:
            self._schedule(list(calls.values()))
        finally:
            for i, call in calls.items():
                if call.packet is not None and call.packet.is_stored:
                    waiting[i].job = call.job
        batch.used()
        return [calls[i].job if each.job is None else each.job for i, each in enumerate(waiting)]

    def place_of(self, task: Schedulable) -> str:
        """Returns the place where the task would be stored: a directory, or the address of a daemon. Raises UnknownTask or
        DestinationUnknown."""
        entry = self._find(task)
        place: str = destination.find(entry.task.queue, entry.chain).key
        return place

    def execute(self, task: Schedulable, *args: Any, **kwargs: Any) -> Any:
        """Calls the function of a task in this process, at once. Returns its value; of an `async def`, the coroutine to await."""
        return self._find(task).task.func(*args, **kwargs)

    # -- how calls are stored

    def _schedule_one(
        self, task: Schedulable, at: datetime | None, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
    ) -> Job:
        call = self._call(task, at, args, kwargs, options)
        self._schedule([call])
        return call.job

    def _call(
        self, task: Schedulable, at: datetime | None, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
    ) -> Call:
        entry = self._find(task)
        call = Call(entry, at, args, kwargs, options)
        if entry.task._checked_at != changes:
            _refuse_another(entry, call.place)
            entry.task._checked_at = changes
        return call

    def _schedule(self, calls: Sequence[Call]) -> None:
        """Passes the calls through all layers of middleware, and stores them. Each layer gets the calls of its registry."""
        layers: list[tuple[Tasks | None, AroundSchedule]] = [(None, layer) for layer in _around_each_schedule]
        for registry in dict.fromkeys(registry for call in calls for registry in call.entry.chain):
            layers += [(registry, layer) for layer in registry._around_schedule]

        def go_on(number: int) -> None:
            if number == len(layers):
                return _store(calls)
            registry, layer = layers[number]
            of_registry = [call for call in calls if registry is None or registry in call.entry.chain]
            has_gone_on = False

            def next_layer() -> None:
                nonlocal has_gone_on
                if has_gone_on:
                    raise RuntimeError('middleware may call next once')
                has_gone_on = True
                go_on(number + 1)

            layer(of_registry, next_layer)

        go_on(0)

    # -- how tasks are found

    @property
    def _chain(self) -> tuple[Tasks, ...]:
        """The registries that use this one, from the outermost one, and this one. Of several users the last one counts."""
        user = self._user()
        return (self,) if user is None else (*user._chain, self)

    def _tree(self, chain: tuple[Tasks, ...]) -> Iterator[tuple[Tasks, tuple[Tasks, ...]]]:
        """Yields this registry and all that it uses, each with its chain."""
        yield self, chain
        for each in self._used:
            yield from each._tree((*chain, each))

    def _entries(self, above: tuple[Tasks, ...] = ()) -> Iterator[Entry]:
        for registry, chain in self._tree((*above, self)):
            for task in registry._tasks.values():
                yield Entry(task, chain)

    def _named(self, full_name: str) -> Entry | None:
        """Returns the task with this name in packets."""
        for registry, chain in self._tree(self._chain):
            prefix = _prefix_of(chain)
            task = registry._tasks.get(full_name[len(prefix) :]) if full_name.startswith(prefix) else None
            if task is not None:
                return Entry(task, chain)
        return None

    def _find(self, task: Schedulable) -> Entry:
        found = self._named_here(task) if isinstance(task, str) else self._of_object(task)
        if found is not None:
            return found
        if isinstance(task, str):
            what = task
        else:
            what = getattr(task, 'task_name', None) or getattr(task, '__name__', None) or repr(task)
        known = ', '.join(sorted(self.names)) or 'none'
        raise UnknownTask('no task %s is in this registry; it has: %s%s' % (what, known, _elsewhere(self, task)))

    def _named_here(self, name: str) -> Entry | None:
        """Returns the task with this name, which may be without the namespace."""
        return self._named(_prefix_of(self._chain) + name) or self._named(name)

    def _of_object(self, task: Any) -> Entry | None:
        for registry, chain in self._tree(self._chain):
            try:
                found = registry._by_function.get(task)
            except TypeError:  # the object has no hash
                found = next((each for each in registry._tasks.values() if each.func is task), None)
            if found is None and isinstance(task, Task) and registry._tasks.get(task.name) is task:
                found = task
            if found is not None:
                return Entry(found, chain)
        return self._wrapped(task)

    def _wrapped(self, task: Any) -> Entry | None:
        """Returns the task of a wrapper, or of a method. Both have the attribute `task_name` of a registered function, and stand
        for its task only if they lead to that function."""
        name = getattr(task, 'task_name', None)
        if not isinstance(name, str):
            return None
        for registry, chain in self._tree(self._chain):
            found = registry._tasks.get(name)
            if found is not None and _innermost(found.func) is _innermost(task):
                return Entry(found, chain)
        return None


class WithOptions:
    def __init__(self, tasks: Tasks, options: Options) -> None:
        self._tasks, self._options = tasks, options

    def schedule(self, task: Schedulable, *args: Any, **kwargs: Any) -> Job:
        return self._tasks._schedule_one(task, None, args, kwargs, self._options)

    def schedule_at(self, task: Schedulable, at: datetime, *args: Any, **kwargs: Any) -> Job:
        return self._tasks._schedule_one(task, _checked_time(task, at), args, kwargs, self._options)


def middleware(*, run: AroundRun | None = None, schedule: AroundSchedule | None = None) -> None:
    """Adds code around the runs and the scheduling of all tasks of this process, outside the middleware of the registries. It is
    meant for code that observes tasks, such as traces. The arguments are those of `Tasks.middleware`."""
    _add_layers(_around_each_run, run, _around_each_schedule, schedule)


def _add_layers(
    runs: list[AroundRun], run: AroundRun | None, schedules: list[AroundSchedule], schedule: AroundSchedule | None
) -> None:
    for layer in (run, schedule):
        if layer is not None and not callable(layer):
            raise TypeError('middleware: expected a function, got %r' % (layer,))
    if run is not None:
        runs.append(run)
    if schedule is not None:
        schedules.append(schedule)


def _store(calls: Sequence[Call]) -> None:
    packets = [(call.place, call.pack()) for call in calls]
    try:
        destination.store(packets)
    except Exception as error:
        stored = [call.stored() for call in calls if call.packet is not None and call.packet.is_stored]
        unknown = [call.job for call in calls if call.packet is not None and call.packet.is_stored is None]
        if len(calls) > 1 and (stored or unknown):
            may_be = ', and %d may be' % len(unknown) if unknown else ''
            raise BatchError(
                '%d of %d tasks are stored%s: %s' % (len(stored), len(calls), may_be, error), stored, unknown
            ) from error
        raise
    for call in calls:
        call.stored()


def _changed() -> None:
    global changes
    changes += 1


def _nobody() -> None:
    return None


def _namespace_of(chain: Sequence[Tasks]) -> str | None:
    """Returns the namespace of the registry nearest to the task that has one; None if none has."""
    return next((each._namespace for each in reversed(chain) if each._namespace is not None), None)


def _prefix_of(chain: Sequence[Tasks]) -> str:
    namespace = _namespace_of(chain)
    return '' if namespace is None else namespace + ':'


def _innermost(func: Any) -> Any:
    return inspect.unwrap(getattr(func, '__func__', func))


def _signature_of(func: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(func)
    except NameError:  # since 3.14: annotations with names that only type checkers know
        import annotationlib  # type: ignore[import-not-found, unused-ignore]

        return inspect.signature(func, annotation_format=annotationlib.Format.FORWARDREF)  # type: ignore[call-arg, unused-ignore]
    except (TypeError, ValueError):
        return None


def is_loaded_again(one: Task, other: Task) -> bool:
    """True if both functions are the same lines of a file that was loaded under two names: they are one task. If one `def` runs
    twice, that makes two tasks."""
    codes = [getattr(_innermost(each.func), '__code__', None) for each in (one, other)]
    return None not in codes and codes[0] is not codes[1] and one.place == other.place


def taken_twice(name: str, one: Task, other: Task) -> ValueError:
    return ValueError('two tasks have the name %s: %s and %s' % (name, one.place, other.place))


def _elsewhere(registry: Tasks, task: Schedulable) -> str:
    """Returns a hint for an error message if another registry has the task, else an empty text."""
    for other in registries():
        if other is registry or isinstance(task, str) and task not in other._tasks:
            continue
        found = other._named_here(task) if isinstance(task, str) else other._of_object(task)
        if found is not None:
            return '. Another registry has it (%s): schedule it there, or let this one use() the other' % found.task.place
    return ''


def _refuse_another(entry: Entry, place: Any) -> None:
    """Raises ValueError if another registry sends a task of this name to the same place. A daemon does not start with two such
    tasks, so the second one is refused where it is scheduled."""
    found = _another(entry, place)
    if found is None:
        return
    import gc

    gc.collect()  # removes the other registry if nothing refers to it any more
    living, error = found
    if living() is not None:
        raise error
    _refuse_another(entry, place)


def _another(entry: Entry, place: Any) -> tuple[Callable[[], Any], ValueError] | None:
    """Returns a weak reference to a registry whose task of this name goes to the same place, and the error for it; None if there
    is no such registry."""
    roots = [registry._chain[0] for registry in entry.chain]
    for other in registries():
        if other._user() is not None or other in roots:
            continue
        found = other._named(entry.full_name)
        if found is None or found.task is entry.task or found.task.place == entry.task.place:
            continue  # one line that registers a task twice makes one task here, as in a function that creates applications
        if _key_of(found) == place.key:
            return weakref.ref(other), taken_twice(entry.full_name, found.task, entry.task)
    return None


def _key_of(entry: Entry) -> Any:
    try:
        return destination.find(entry.task.queue, entry.chain).key
    except Exception:
        return None  # no place is known for the task


def _meant(option: str) -> str:
    import difflib

    names = list(inspect.signature(Tasks.add).parameters)[2:-1]
    known = {'retries': 'max_retries', 'timezone': 'time_zone', 'tz': 'time_zone', 'concurrency': 'max_concurrency'}
    close = [known[option]] if option in known else difflib.get_close_matches(option, names, 1)
    return 'there is no option %s%s' % (option, '; did you mean %s?' % close[0] if close else ' (%s)' % ', '.join(names))


def _checked_time(task: Any, at: Any) -> datetime:
    from datetime import datetime

    if isinstance(task, datetime):
        raise TypeError('schedule_at(task, at, …): the task comes first, got %r' % (task,))
    return to_utc(at)


def _checked(what: str, name: str) -> str:
    is_name = isinstance(name, str) and _NAME.fullmatch(name) and name.isprintable() and len(name.encode()) <= _MAX_NAME_BYTES
    if not is_name or what == 'a queue' and re.search('[=,]', name):
        no_more = ' and have no = or ,' if what == 'a queue' else ''
        raise ValueError(
            'the name of %s: expected 1 to %d bytes without spaces and control characters that do not begin with _%s, got %r'
            % (what, _MAX_NAME_BYTES, no_more, name)
        )
    return name


def _checked_retries(number: int | float) -> int | float:
    if isinstance(number, bool) or number != math.inf and (not isinstance(number, int) or number < 0):
        raise ValueError('max_retries: expected a whole number from 0, or math.inf, got %r' % (number,))
    return number


def _checked_concurrency(number: int | None) -> int | None:
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise ValueError('max_concurrency: expected a whole number from 1, got %r' % (number,))
    return number
