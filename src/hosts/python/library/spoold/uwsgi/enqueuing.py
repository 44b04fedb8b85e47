"""Implements `uwsgi.spool` outside workers. It checks tasks as a worker does, and stores them with the library."""

from __future__ import annotations

import errno
import json
import os
import re

from .. import destination
from ..errors import SpooldError
from ..packet import LIMIT, Packet
from ..uwsgi_module import _pairs_of
from . import places
from .at import read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .places import Spool

_DIGITS = re.compile(rb'[0-9]+')
#: a key that belongs to the transfer over a socket, and not to a task
_BODY_LENGTH = b'CONTENT_LENGTH'


def spool(message: Any) -> bytes:
    """Stores a task. Returns the path of its file, or the address of the daemon's socket to which it was sent. Raises ValueError
    for any fault, as uWSGI does."""
    pairs, body = _checked(message)
    given = dict(pairs)
    at = read_at(given.get(b'at', b''))
    if at is not None:
        pairs = [(key, at.text if key == b'at' else value) for key, value in pairs]
    priority = given.get(b'priority') or None
    if priority is not None and not _DIGITS.fullmatch(priority):
        raise ValueError('priority must be digits only, got %s' % json.dumps(priority.decode('utf-8', 'replace')))
    told = places.told()
    where = places.find(told, given.get(b'spooler'))
    packet = Packet(
        pairs,
        body or b'',
        None if at is None or at.seconds < 1 else '%d' % at.seconds,
        priority=None if priority is None else priority.decode(),
    )
    if isinstance(message.get(b'body'), bytes):
        del message[b'body']
    try:
        store(where, packet)
    except (OSError, SpooldError) as error:
        raise ValueError(str(error)) from error
    return os.fsencode(where.name if packet.ref is None else '%s/%s' % (where.name, packet.ref))


def store(where: Spool, packet: Packet) -> None:
    place = destination.to(where.name, where.is_synced)
    if hasattr(place, 'prepare'):
        _check_reader(where.name)
    destination.store([(place, packet)])


def _checked(message: object) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
    """Returns the pairs as bytes, and the body. Raises ValueError."""
    body, pairs, size = None, [], 0
    for key, value in _pairs_of(message):
        if key == b'body':
            body = value
        elif key != _BODY_LENGTH:
            pairs.append((key, value))
            size += _bytes_of(key, value)
    if size > LIMIT:
        raise _too_long('all keys and values together take %d bytes' % size)
    return pairs, body


def _bytes_of(key: bytes, value: bytes) -> int:
    if not key:
        raise ValueError('a key is empty; the format has no way to write that')
    if len(key) > LIMIT:
        raise _too_long('a key takes %d bytes' % len(key))
    if len(value) > LIMIT:
        raise _too_long('the value of "%s" takes %d bytes' % (key.decode('utf-8', 'replace'), len(value)))
    return 4 + len(key) + len(value)


def _too_long(what: str) -> ValueError:
    return ValueError('%s; a packet holds %d. Put large data in the body, which has no such limit' % (what, LIMIT))


def _check_reader(path: str) -> None:
    """Raises PermissionError if the daemon is another user: a task file has the mode 0600, so the daemon could not read it."""
    user = os.geteuid()
    if user == 0:
        return  # root stores for the owner of the spool
    try:
        daemon = os.stat(os.path.join(path, '.spoold')).st_uid
    except OSError:
        daemon = os.stat(path).st_uid
    if daemon not in (0, user):
        raise PermissionError(
            errno.EPERM,
            'the daemon of this spool is the user %d, and cannot read what this one, %d, stores: let both be the same, or store over '
            'its socket (%s=/run/spoold.sock)' % (daemon, user, places.ENQUEUE_TO),
            path,
        )
