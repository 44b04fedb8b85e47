# mypy: allow-subclassing-any
"""Reports failures of tasks to Sentry, and runs as transactions, in the trace of the code that scheduled the tasks.

    sentry_sdk.init(dsn=…, integrations=[SpooldIntegration()])
"""

from __future__ import annotations

import contextlib

import sentry_sdk  # type: ignore[import-not-found, unused-ignore]
from sentry_sdk.integrations import Integration  # type: ignore[import-not-found, unused-ignore]
from sentry_sdk.integrations.logging import ignore_logger  # type: ignore[import-not-found, unused-ignore]
from sentry_sdk.tracing import Transaction  # type: ignore[import-not-found, unused-ignore]
from sentry_sdk.utils import capture_internal_exceptions, event_from_exception  # type: ignore[import-not-found, unused-ignore]

from .. import AbortException, WorkerDied, middleware, signals
from ..utils import hide, own_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Sequence

    from .. import Job
    from ..call import Call

OPERATION = 'queue.task.spoold'


class SpooldIntegration(Integration):
    """Reports the last run of a task that fails; with `send_retries`, the failed runs before it, too."""

    identifier = 'spoold'
    origin = 'auto.queue.spoold'

    def __init__(self, send_retries: bool = False) -> None:
        self.send_retries = send_retries

    @staticmethod
    def setup_once() -> None:
        """Sets up the integration. The SDK calls this once per process."""
        middleware(run=_watched, schedule=_traced)
        signals.worker_terminated.connect(_flush)
        signals.job_failed.connect(_died)
        signals.job_schedule_retry.connect(_died_and_runs_again)
        for name in ('spoold.job', 'spoold.worker'):
            ignore_logger(name)  # these loggers log the same failures


@contextlib.contextmanager
def _watched(job: Job) -> Iterator[None]:
    with _scope() as (hub, scope):
        integration = hub.get_integration(SpooldIntegration)
        if integration is None:
            yield
            return
        fields = _describe(scope, job)
        with _transaction(hub, job, fields) as transaction:
            try:
                yield
            except BaseException as error:
                transaction.set_status('internal_error')
                if integration.send_retries or isinstance(error, AbortException) or not job.should_retry:
                    with capture_internal_exceptions():  # an error in the report must not replace the task's own
                        _report(hub, error)
                raise
            transaction.set_status('ok')


def _died(_: str | None, job: Job, err: BaseException, is_final: bool = True, **__: Any) -> None:
    """Reports a run whose process has died; another process gets that signal. Exceptions of runs are reported in the runs."""
    if not isinstance(err, WorkerDied):
        return
    with _scope() as (hub, scope):
        integration = hub.get_integration(SpooldIntegration)
        if integration is not None and (is_final or integration.send_retries):
            _describe(scope, job)
            scope.set_transaction_name(job.task_name)
            _report(hub, err)


def _died_and_runs_again(namespace: str | None, job: Job, err: BaseException, **__: Any) -> None:
    """Reports the run before, because the job of the signal is already that of the next run."""
    _died(namespace, job.having(retries=job.retries - 1), err, is_final=False)


def _describe(scope: Any, job: Job) -> dict[str, Any]:
    scope.clear_breadcrumbs()
    fields = _fields(job)
    scope.set_context('spoold', fields)
    for name in ('id', 'task_name', 'queue', 'attempt', 'namespace'):
        scope.set_tag('spoold.' + name, str(fields[name]))
    scope.add_event_processor(_without_hidden)
    return fields


def _traced(calls: Sequence[Call], store: Callable[[], None]) -> None:
    if hasattr(sentry_sdk, 'get_traceparent'):
        headers = {'sentry-trace': sentry_sdk.get_traceparent(), 'baggage': sentry_sdk.get_baggage()}
    else:
        headers = dict(sentry_sdk.Hub.current.iter_trace_propagation_headers())
    for call in calls:
        for name, value in headers.items():
            if value:
                call.headers.setdefault(name, value)
    store()


def _flush(*_: Any, **__: Any) -> None:
    sentry_sdk.flush(timeout=2)


@contextlib.contextmanager
def _scope() -> Iterator[tuple[Any, Any]]:
    """Isolates a run, so that reports in the run belong to it. Yields the client, or the hub of an old SDK, and the scope."""
    if hasattr(sentry_sdk, 'isolation_scope'):
        with sentry_sdk.isolation_scope() as scope:
            yield sentry_sdk.get_client(), scope
    else:
        with sentry_sdk.Hub(sentry_sdk.Hub.current) as hub, hub.configure_scope() as scope:
            yield hub, scope


def _transaction(hub: Any, job: Job, fields: dict[str, Any]) -> Any:
    if hasattr(sentry_sdk, 'continue_trace'):
        origin = SpooldIntegration.origin
        known = sentry_sdk.continue_trace(job.headers, op=OPERATION, name=job.task_name, source='task', origin=origin)
        return sentry_sdk.start_transaction(known, custom_sampling_context={'spoold_job': fields})
    known = Transaction.continue_from_headers(job.headers, op=OPERATION, name=job.task_name, source='task')
    return hub.start_transaction(known, custom_sampling_context={'spoold_job': fields})


def _report(hub: Any, error: BaseException) -> None:
    client = getattr(hub, 'client', hub)
    mechanism = {'type': 'spoold', 'handled': False}
    event, hint = event_from_exception(
        (type(error), error, own_trace(error)), client_options=client.options, mechanism=mechanism
    )
    (sentry_sdk if client is hub else hub).capture_event(event, hint=hint)


def _fields(job: Job) -> dict[str, Any]:
    """Returns the fields of a job as JSON values, without the values of hidden keys."""
    fields = job.fields()
    plain = {name: value if isinstance(value, (int, float, str, tuple, dict)) else str(value) for name, value in fields.items()}
    return {**plain, 'status': job.status.name, 'at': job.at.isoformat(), 'attempt': job.attempt, 'namespace': job.namespace}


def _without_hidden(event: Any, _hint: Any) -> Any:
    """Hides the values of hidden keys in the variables of the stack frames, because those have the arguments, too."""
    for exception in (event.get('exception') or {}).get('values') or ():
        for frame in (exception.get('stacktrace') or {}).get('frames') or ():
            if 'vars' in frame:
                frame['vars'] = hide(frame['vars'])
    return event
