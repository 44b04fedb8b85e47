"""An extension of Flask. Tasks run in the context of their application.

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
    """The registries of one application, or of several. Tasks that are registered here belong to each application.

    These settings are read when an application is initialised:
    SPOOLD_ENQUEUE_TO  where tasks go, in the form of the environment variable of that name, or a dictionary. Without the setting
                       that variable counts. Relative paths begin in the directory of the application, its root_path
    SPOOLD_NAMESPACE   a prefix for the names of the tasks, and the first argument of their signals. The default is the name of
                       the application
    """

    def __init__(self, app: flask.Flask | None = None) -> None:
        self.app = app
        self._shared = Tasks()
        #: registers a task; the options are those of `Tasks.task`
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
        """The registry of the application that was given to the constructor, else of the current one."""
        if self.app is not None:
            return registry_of(self.app)
        if not flask.has_app_context():
            raise RuntimeError(
                'Spoold() was made without an application, and none is current: schedule in a view, a command or a task, '
                'or in "with app.app_context():"'
            )
        return registry_of(flask.current_app)

    #: the name that Spinach has for `tasks`
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
        """For subclasses: called before a run, in the application's context. An exception in it is a failure of the task."""

    def job_finished(self, job: Job) -> None:
        """For subclasses: called after a run, in the application's context, whatever the outcome; not if `job_started` raised."""

    def job_failed(self, job: Job, err: BaseException) -> None:
        """For subclasses: called when a task has failed and will not run again, also if its process has died, in a context of the
        application."""

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
    """Returns a context of the application. A test or a view that runs a task in such a context keeps its own."""
    is_in_it = flask.has_app_context() and flask.current_app._get_current_object() is app
    return contextlib.nullcontext() if is_in_it else app.app_context()


def register_tasks(app: flask.Flask, tasks: Tasks) -> None:
    """Gives an application the tasks of a registry, such as a blueprint's, including those that are registered later."""
    registry_of(app).use(tasks)


def places_of(app: Any) -> dict[str, Any] | None:
    """Returns the place of each queue from the application's configuration; None if it has none."""
    told = app.config.setdefault('SPOOLD_ENQUEUE_TO', None)
    return None if not told else destination.places_below(app.root_path, told)


def registry_of(app: Any) -> Tasks:
    tasks: Tasks | None = app.extensions.get(EXTENSION)
    if tasks is None:
        raise RuntimeError('the application %s has no Spoold. Did you forget to call init_app?' % app.name)
    return tasks
