"""Reports tasks to Datadog APM, in the trace of the code that scheduled them.

    register_datadog()
"""

from __future__ import annotations

import contextlib
import sys

import ddtrace  # type: ignore[import-not-found, unused-ignore]
from ddtrace.propagation.http import HTTPPropagator  # type: ignore[import-not-found, unused-ignore]

from .. import AbortException, JobStatus, middleware

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Sequence

    from .. import Job
    from ..call import Call

#: the namespaces whose tasks are reported; None: all
_registered: list[str | None] = []


def register_datadog(tracer: Any = None, namespace: str | None = None, service: str = 'spoold') -> None:
    """Reports tasks from now on. A second call for the same namespace does nothing.

    tracer     the tracer, instead of the global one
    namespace  report only the tasks of this namespace; None: of all
    service    the service of the spans
    """
    if namespace in _registered or None in _registered:
        return
    _registered.append(namespace)
    used = ddtrace.tracer if tracer is None else tracer

    def is_ours(job: Job) -> bool:
        return job.namespace == namespace or namespace is None and job.namespace not in _registered

    @contextlib.contextmanager
    def traced(job: Job) -> Iterator[None]:
        if not is_ours(job):
            yield
            return
        before = used.context_provider.active()
        used.context_provider.activate(HTTPPropagator.extract(job.headers))
        try:
            with used.trace('spoold.task', service=service, span_type='worker', resource=job.task_name) as span:
                for name, value in {**job.fields(), 'attempt': job.attempt}.items():
                    span.set_tag(name, value if isinstance(value, int) else str(value))
                try:
                    yield
                except BaseException as error:
                    is_final = isinstance(error, AbortException) or not job.should_retry
                    span.set_tag('status', str(JobStatus.FAILED if is_final else JobStatus.WAITING))
                    raise
                span.set_tag('status', str(JobStatus.SUCCEEDED))
        finally:
            used.context_provider.activate(before)

    def continued(calls: Sequence[Call], store: Callable[[], None]) -> None:
        span = used.current_span()
        for call in calls if span is not None else ():
            if is_ours(call.job):
                HTTPPropagator.inject(span.context, call.headers)
        store()

    middleware(run=traced, schedule=continued)


def register_datadog_if_module_patched(module: str, *args: Any, **kwargs: Any) -> bool:
    """Calls `register_datadog` if `ddtrace-run` or `ddtrace.patch` has patched a module, such as `django`. Returns True if so."""
    is_patched = bool(getattr(sys.modules.get(module), '_datadog_patch', False))
    if is_patched:
        register_datadog(*args, **kwargs)
    return is_patched
