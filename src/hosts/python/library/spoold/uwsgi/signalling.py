"""Raises uwsgi signals from a process that is not a worker: the daemon raises them on request."""

from __future__ import annotations

import errno
import json
import os
import socket

from ..daemon_socket import raise_signal
from . import places

#: seconds: the longest wait for an answer
_PATIENCE = 5
_MOST_ANSWER_BYTES = 65536


def raise_in_daemon(number: int) -> None:
    """Raises a signal over the control socket of a spool, or over the address to which tasks go. Raises ValueError if no daemon
    takes it."""
    told = places.told()
    if told.fault is not None:
        raise ValueError(told.fault)
    faults = []
    for spool in told.spools:
        if places.is_socket(spool.name):
            return raise_signal(number, spool.name)
        for control in _controls_of(spool.name):
            try:
                return _order(control, spool.name, number)
            except OSError as error:
                faults.append('%s: %s' % (spool.name, error.strerror or error))
    said = '; '.join(faults) or 'no daemon runs %s' % ', '.join(spool.name for spool in told.spools)
    raise ValueError('signal %d is not raised: %s' % (number, said))


def _controls_of(spool: str) -> list[str]:
    try:
        names = os.listdir(os.path.join(spool, '.spoold'))
    except FileNotFoundError:
        return []
    except PermissionError:
        raise ValueError(
            'a signal is raised by the user of the daemon of %s, uid %d, and this is uid %d; a socket of the daemon (socket = …) takes it '
            'from others: uwsgi.signal(number, address)' % (spool, os.stat(os.path.join(spool, '.spoold')).st_uid, os.geteuid())
        ) from None
    return sorted(name for name in names if name == 'control' or name.startswith('control.') and name[8:].isdigit())


def _order(name: str, spool: str, number: int) -> None:
    """Sends the order to a control socket. Raises OSError if nobody listens, and ValueError if the daemon refuses."""
    directory = os.open(os.path.join(spool, '.spoold'), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(_PATIENCE)
            peer.connect('/proc/self/fd/%d/%s' % (directory, name))  # the spool's path may be too long for an address
            request = {'v': 1, 'id': 1, 'verb': 'signal', 'args': {'number': number}}
            peer.sendall(json.dumps(request).encode() + b'\n')
            answer = json.loads(_line(peer))
    finally:
        os.close(directory)
    if 'error' in answer:
        raise ValueError('signal %d is not raised: %s' % (number, answer['error'].get('message')))


def _line(peer: socket.socket) -> bytes:
    line = b''
    while not line.endswith(b'\n') and len(line) < _MOST_ANSWER_BYTES:
        part = peer.recv(4096)
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, 'the daemon did not answer')
        line += part
    return line
