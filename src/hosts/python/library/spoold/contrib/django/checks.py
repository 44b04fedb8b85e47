"""
Checks the spools of the project for `manage.py check`. Commands such as `migrate` do not run if a check finds an error, and may
run before there is a spool, or as another user. So a fault that affects only the web process is a warning.
"""

from __future__ import annotations

import os
import stat

from django.conf import settings  # type: ignore[import-not-found, unused-ignore]
from django.core.checks import CheckMessage, Error, Warning  # type: ignore[import-not-found, unused-ignore]

from ... import DestinationUnknown
from ...destination import DEFAULT_QUEUE, VARIABLE, is_address, places_in
from . import spoold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def check_spools(**_: Any) -> list[CheckMessage]:
    told = getattr(settings, VARIABLE, None) or os.environ.get(VARIABLE)
    if not told:
        hint = "For instance %s = BASE_DIR / 'spool', or the environment variable of that name." % VARIABLE
        return [Warning('Nothing says where tasks go.', hint=hint, id='spoold.W001')]
    try:
        places = places_in(told)
    except (DestinationUnknown, TypeError) as error:
        return [Error(str(error), id='spoold.E001')]
    messages: list[CheckMessage] = []
    for queue, place in places.items():
        if not hasattr(place, 'store') and not is_address(os.fsdecode(place)):
            messages += _check_directory(queue, os.path.expanduser(os.fsdecode(place)))
    for name, task in spoold.tasks.items():
        if task.queue not in places:
            hint = 'Known: %s. Give it a place in %s, such as %s.' % (
                ', '.join(sorted(places)),
                VARIABLE,
                '/var/spool/app,%s=/var/spool/%s' % (task.queue, task.queue),
            )
            messages.append(Error('No spool is known for the queue %s of the task %s.' % (task.queue, name), hint=hint, id='spoold.E005'))
    return messages


def _check_directory(queue: str, path: str) -> list[CheckMessage]:
    what = 'The spool of the queue %s, %s, ' % (queue, path) if queue != DEFAULT_QUEUE else 'The spool %s ' % path
    if not os.path.isabs(path):
        hint = "Web server and daemon start in different directories. Write BASE_DIR / '%s'." % path
        return [Error(what + 'is a relative path.', hint=hint, id='spoold.E006')]
    try:
        status = os.stat(path)
    except FileNotFoundError:
        hint = 'Create it as the user of the daemon, or start that: manage.py spoold.'
        return [Warning(what + 'does not exist.', hint=hint, id='spoold.W002')]
    except OSError as error:
        return [Warning(what + 'cannot be reached: %s.' % error.strerror, id='spoold.W003')]
    if stat.S_ISSOCK(status.st_mode):
        return []
    if not stat.S_ISDIR(status.st_mode):
        return [Error(what + 'is neither a directory nor a socket.', id='spoold.E002')]
    user = os.geteuid()
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        hint = 'It belongs to the user %d, and this is the user %d.' % (status.st_uid, user)
        return [Warning(what + 'cannot be written by this user.', hint=hint, id='spoold.W003')]
    if user not in (0, status.st_uid) and status.st_uid != 0:
        hint = (
            'Let web server and daemon be the same user, or let the web server schedule over a socket: %s = /run/spoold.sock.' % VARIABLE
        )
        said = 'belongs to the user %d, whose daemon cannot read what this user, %d, stores: its files have the mode 0600.'
        return [Warning(what + said % (status.st_uid, user), hint=hint, id='spoold.W004')]
    return []
