"""An extension of Flask: tasks run in the context of their application.

    app = Flask(__name__)
    app.config['SPOOLD_ENQUEUE_TO'] = '/var/spool/shop'
    spoold = Spoold(app)

    @spoold.task(name='say-hello')
    def say_hello(): ...

`flask spoold` runs the daemon.
"""

from __future__ import annotations

import contextlib

import flask  # type: ignore[import-not-found, unused-ignore]

from ... import Tasks, destination, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Callable, Iterator

    from ... import Batch, Job
    from ...tasks import Schedulable, WithOptions

__all__ = ['Spoold', 'register_tasks']

EXTENSION = 'spoold'


class Spoold:
    """The registries of one application, or of several. What is registered here belongs to each of them.

    Of the configuration, when an application is initialised:
    SPOOLD_ENQUEUE_TO  where tasks go, as in the environment variable of that name, which counts without it; or a dictionary.
                       Paths that are not absolute begin in the directory of the application, its root_path
    SPOOLD_NAMESPACE   before the names of the tasks, and first in signals; the name of the application
    """

    def __init__(self, app: flask.Flask | None = None) -> None:
        self.app = app
        self._shared = Tasks()
        #: registers a task; its options are those of `Tasks.task`
        self.task = self._shared.task
        self.add = self._shared.add
        if app is not None:
            self.init_app(app)

    def init_app(self, app: flask.Flask) -> None:
        if EXTENSION in app.extensions:
            app.extensions[EXTENSION].use(self._shared)
            return
        namespace = app.config.setdefault('SPOOLD_NAMESPACE', app.name)
        tasks = Tasks(namespace=namespace).bind(enqueue_to=places_of(app))
        tasks.middleware(run=lambda job: self._in_context(app, job))
        tasks.around_signals.append(lambda _: _context_of(app))
        if type(self).job_failed is not Spoold.job_failed:
            signals.job_failed.connect(self._failed, namespace, weak=True)
        tasks.use(self._shared)
        app.extensions[EXTENSION] = tasks

        from .command import command

        app.cli.add_command(command)

    @property
    def tasks(self) -> Tasks:
        """The registry of the application: that of the constructor, else the current one."""
        if self.app is not None:
            return registry_of(self.app)
        if not flask.has_app_context():
            raise RuntimeError(
                'Spoold() was made without an application, and none is current: schedule in a view, a command or a task, '
                'or in "with app.app_context():"'
            )
        return registry_of(flask.current_app)

    #: as Spinach calls it
    spin = tasks

    def register_tasks(self, app: flask.Flask, tasks: Tasks) -> None:
        register_tasks(app, tasks)

    def schedule(self, task: Schedulable, *args: Any, **kwargs: Any) -> Job:
        return self.tasks.schedule(task, *args, **kwargs)

    def schedule_at(self, task: Schedulable, at: datetime, *args: Any, **kwargs: Any) -> Job:
        return self.tasks.schedule_at(task, at, *args, **kwargs)

    def schedule_batch(self, batch: Batch) -> list[Job]:
        return self.tasks.schedule_batch(batch)

    def with_options(self, **options: Any) -> WithOptions:
        return self.tasks.with_options(**options)

    def execute(self, task: Schedulable, *args: Any, **kwargs: Any) -> Any:
        return self.tasks.execute(task, *args, **kwargs)

    def job_started(self, job: Job) -> None:
        """For subclasses, in the application's context: what it raises is the failure of the task."""

    def job_finished(self, job: Job) -> None:
        """The same after the run, whatever its outcome; not where `job_started` has raised."""

    def job_failed(self, job: Job, err: BaseException) -> None:
        """For subclasses, in a context of the application: it will not run again. Also where its process has died."""

    def _failed(self, _: str | None, job: Job, err: BaseException) -> None:
        self.job_failed(job, err)

    @contextlib.contextmanager
    def _in_context(self, app: flask.Flask, job: Job) -> Iterator[None]:
        with _context_of(app):
            self.job_started(job)
            try:
                yield
            finally:
                self.job_finished(job)


def _context_of(app: flask.Flask) -> Any:
    """Where a test or a view runs a task in its own context, that stays."""
    is_in_it = flask.has_app_context() and flask.current_app._get_current_object() is app
    return contextlib.nullcontext() if is_in_it else app.app_context()


def register_tasks(app: flask.Flask, tasks: Tasks) -> None:
    """Lets an application have the tasks of a registry, such as a blueprint's, also those that it gets later."""
    registry_of(app).use(tasks)


def places_of(app: Any) -> dict[str, Any] | None:
    """Of its configuration."""
    told = app.config.setdefault('SPOOLD_ENQUEUE_TO', None)
    return None if not told else destination.places_below(app.root_path, told)


def registry_of(app: Any) -> Tasks:
    tasks: Tasks | None = app.extensions.get(EXTENSION)
    if tasks is None:
        raise RuntimeError('the application %s has no Spoold. Did you forget to call init_app?' % app.name)
    return tasks
