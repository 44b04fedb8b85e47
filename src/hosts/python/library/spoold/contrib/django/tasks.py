"""The tasks of this application."""

from __future__ import annotations

import importlib
import logging
from datetime import datetime, timedelta, timezone

from django.conf import settings  # type: ignore[import-not-found, unused-ignore]

from ... import AbortException, Tasks, current_job
from ...utils import exponential_backoff

tasks = Tasks()


@tasks.task(name='spoold:clear-sessions', periodicity=getattr(settings, 'SPOOLD_CLEAR_SESSIONS_PERIODICITY', None))
def clear_expired_sessions() -> None:
    """Clears expired sessions, as `manage.py clearsessions` does."""
    engine = importlib.import_module(settings.SESSION_ENGINE)
    try:
        engine.SessionStore.clear_expired()
    except NotImplementedError:
        logging.getLogger('spoold.contrib.django').warning(
            'The session engine %s does not clear expired sessions: leave SPOOLD_CLEAR_SESSIONS_PERIODICITY out',
            settings.SESSION_ENGINE,
        )


@tasks.task(name='spoold:send-email', max_retries=20)
def send_email(subject: str, to: list[str], only: list[str] | None = None) -> None:
    """Sends the message in the body of the task. `subject` and `to` are for people.

    only  send to these recipients only, because the others have the message; None: to all
    """
    from . import mail, spoold

    job = current_job()
    assert job is not None and job.body is not None
    try:
        refused = mail.send(mail.unpack(job.body), only)
    except Exception as error:
        if mail.is_permanent(error):
            raise AbortException('the server does not take it: %s' % error) from error
        raise
    again = spoold.with_options(body=job.body, headers=job.headers)
    for is_later in (True, False):
        group = {address: answer for address, answer in refused.items() if (answer[0] < 500) is is_later}
        if not group:
            continue
        # These recipients get a task of their own, because others have the message. Those that are refused for good get another
        # one, which becomes a dead letter.
        at = datetime.now(timezone.utc) + (exponential_backoff(1) if is_later else timedelta())
        try:
            again.schedule_at('spoold:send-email', at, subject=subject, to=to, only=sorted(group))
        except Exception as error:
            raise AbortException('others have the message, and it could not be stored for %s' % mail.words(group)) from error
