"""The tasks of this application."""

from __future__ import annotations

import importlib
import logging

from django.conf import settings  # type: ignore[import-not-found, unused-ignore]

from ... import Tasks

tasks = Tasks()


@tasks.task(name='spoold:clear-sessions', periodicity=getattr(settings, 'SPOOLD_CLEAR_SESSIONS_PERIODICITY', None))
def clear_expired_sessions() -> None:
    """As `manage.py clearsessions`."""
    engine = importlib.import_module(settings.SESSION_ENGINE)
    try:
        engine.SessionStore.clear_expired()
    except NotImplementedError:
        logging.getLogger('spoold.contrib.django').warning(
            'The session engine %s does not clear expired sessions: leave SPOOLD_CLEAR_SESSIONS_PERIODICITY out',
            settings.SESSION_ENGINE,
        )
