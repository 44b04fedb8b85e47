"""Runs named tasks in a real uWSGI, beside its own spooler function."""

from __future__ import annotations

import json
import math
import os
import socket
import time
import traceback

from . import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .job import Job

#: failed runs by the name of the task file. This process counts them, because uWSGI does not
_failures: dict[bytes, int] = {}


def attach_uwsgi() -> None:
    """Makes uWSGI's spooler run named tasks. All other tasks go to `uwsgi.spooler` as before, so set that first. Under spoold
    this does nothing, because its host finds named tasks by itself."""
    import uwsgi  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if b'spoold' in uwsgi.version or getattr(getattr(uwsgi, 'spooler', None), '_is_spoold', False):
        return
    others = getattr(uwsgi, 'spooler', None)

    def spooler(env: dict[Any, Any]) -> Any:
        name = env['spooler_task_name']
        begun = run.begin(env, _failures.get(name, 0) + 1, _due(name))
        if begun is None:
            return uwsgi.SPOOL_IGNORE if others is None else others(env)
        answer = _perform(begun)
        if answer is None:
            _failures.pop(name, None)
            return uwsgi.SPOOL_OK
        _settle(name, answer, begun.job)
        return uwsgi.SPOOL_RETRY  # also for a buried task, because uWSGI would fail to remove a file that was moved away

    spooler._is_spoold = True  # type: ignore[attr-defined]
    uwsgi.spooler = spooler


def _due(name: bytes) -> float | None:
    """Returns the mtime of the task file; None if there is none. uWSGI has entered the directory of the task."""
    try:
        return os.stat(name).st_mtime
    except OSError:
        return None


def _perform(begun: run.Run) -> dict[str, Any] | None:
    try:
        begun.perform()
    except BaseException as error:
        traceback.print_exc()
        return begun.failed(error)
    begun.succeeded()
    return None


def _settle(name: bytes, answer: dict[str, Any], job: Job) -> None:
    failures = _failures.get(name, 0) + 1
    reason = answer.get('bury') or answer.get('error') or answer.get('reason')
    if 'bury' in answer or failures > job.max_retries:
        _failures.pop(name, None)
        _bury(os.fsdecode(name), 'asked' if 'bury' in answer else 'attempts', reason, failures)
        return
    _failures[name] = failures
    at = math.ceil(max(time.time(), job.at.timestamp()))  # uWSGI compares whole seconds
    os.utime(name, (at, at))  # uWSGI runs the task no earlier. The file is not opened, because closing it would give up the lock


def _bury(name: str, reason: str, detail: str | None, attempts: int) -> None:
    """Moves the task file to the dead letters, with the reason beside it, as spoold does."""
    dead = os.path.join('.spoold', 'dead')
    os.makedirs(dead, mode=0o700, exist_ok=True)
    letter = {
        'ref': name,
        'reason': reason,
        'detail': detail,
        'buriedAt': time.time_ns() // 1000000,
        'attempts': attempts,
        'crashes': 0,
        'lastError': detail,
        'handlers': ['uwsgi'],
        'host': socket.gethostname(),
    }
    with open(os.open(os.path.join(dead, name + '.json'), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as file:
        json.dump(letter, file)
    os.rename(name, os.path.join(dead, name))
