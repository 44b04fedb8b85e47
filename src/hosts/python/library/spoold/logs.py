"""Logs what happens to tasks with the application's own `logging`: the records of Spinach, under the names of our loggers.

    logging.basicConfig(format='%(asctime)s %(task_name)s %(job_id)s %(message)s')
    logging.getLogger().handlers[0].addFilter(spoold.JobFilter())

This module is loaded only where the application has loaded `logging`. In a daemon, the daemon's own log says that a task failed,
so such a record goes only to the handlers that write elsewhere.
"""

from __future__ import annotations

import logging
import sys
import traceback

from .errors import AbortException, RetryException
from .job import current_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Callable

    from .job import Job
    from .tasks import Tasks

_worker = logging.getLogger('spoold.worker')
_job = logging.getLogger('spoold.job')
_scheduling = logging.getLogger('spoold.scheduling')


class JobFilter(logging.Filter):
    """A filter for handlers. It gives each record the `task_name`, `job_id` and `job_attempt` of the running task; `-` if there
    is none."""

    def filter(self, record: logging.LogRecord) -> bool:
        job = current_job()
        record.task_name = '-' if job is None else job.task_name
        record.job_id = '-' if job is None else str(job.id)
        record.job_attempt = '-' if job is None else job.attempt
        return True


class _NotTwice(logging.Filter):
    """A filter for handlers that write to the daemon's log. It drops the records of failures that the log already has."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(record, 'is_in_daemons_log', False)


_NOT_TWICE = _NotTwice()


def _harmless(tell: Callable[..., None]) -> Callable[..., None]:
    """Makes a function print what a handler of the application raises, instead of raising it. Such an error is no failure of the
    task, which must not run again because of it."""

    def told(*details: object) -> None:
        try:
            tell(*details)
        except Exception:
            traceback.print_exc()

    return told


@_harmless
def scheduled(job: Job) -> None:
    _scheduling.debug('Scheduled %s', job)


def attached_twice(tasks: Tasks) -> None:
    _scheduling.warning('Tasks already attached to a different registry: what is scheduled by %r goes to the last one', tasks)


def workers_started(number: int, queue: str) -> None:
    _worker.info('Starting %d workers on queue "%s"', number, queue)


def workers_stop(queue: str) -> None:
    _worker.info('Stopping workers because queue "%s" is empty', queue)


@_harmless
def started(job: Job) -> None:
    _worker.info('Starting execution of %s', job)


@_harmless
def succeeded(job: Job, seconds: float) -> None:
    _job.info('Finished execution of %s in %s', job, _duration(seconds))


@_harmless
def failed(
    job: Job,
    attempt: int,
    seconds: float,
    error: BaseException,
    retry_in: float | None,
    trace: TracebackType | None,
    is_told: bool,
) -> None:
    """
    Logs the failure of a run.

    attempt   the number of the run that failed
    retry_in  seconds until the task runs again; None: it does not run again
    trace     the traceback, beginning at the task's function
    is_told   True if the daemon or a test reports the failure: then nothing is printed where no handlers are set
    """
    if is_told and not _job.hasHandlers():
        _job.addHandler(logging.NullHandler())  # else Python prints the record; an error tracker gets it without handlers, too
    fault = (type(error), error, trace)
    runs = (attempt, job.max_retries + 1, job, _duration(seconds))
    if isinstance(error, AbortException):
        _say(logging.ERROR, fault, 'Fatal error during execution of %s after %s, canceling retries', job, runs[3])
    elif retry_in is None:
        _say(logging.ERROR, fault, 'Error during execution %s/%s of %s after %s', *runs)
    elif isinstance(error, RetryException):
        _say(logging.INFO, None, 'Retry requested during execution %s/%s of %s after %s, retry in %s', *runs, _duration(retry_in))
    else:
        _say(logging.WARNING, fault, 'Error during execution %s/%s of %s after %s, retry in %s', *runs, _duration(retry_in))


def _say(
    level: int,
    fault: tuple[type[BaseException], BaseException, TracebackType | None] | None,
    message: str,
    *details: object,
) -> None:
    is_in_daemon = 'uwsgi' in sys.modules
    if is_in_daemon:
        _spare_daemons_log()
    _job.log(level, message, *details, exc_info=fault, extra={'is_in_daemons_log': is_in_daemon})


def _spare_daemons_log() -> None:
    """Adds the filter to all handlers that write to the daemon's log, each time, because handlers may be added at any time."""
    logger: logging.Logger | None = _job
    while logger is not None:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and _is_daemons(handler.stream) and _NOT_TWICE not in handler.filters:
                handler.addFilter(_NOT_TWICE)
        logger = logger.parent if logger.propagate else None


def _is_daemons(stream: object) -> bool:
    if stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        return True
    try:
        return stream.fileno() in (1, 2)  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False


def _duration(seconds: float) -> str:
    return '%d s' % seconds if seconds >= 1 else '%d ms' % (seconds * 1000)
