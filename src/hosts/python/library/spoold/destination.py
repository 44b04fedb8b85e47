"""Finds the place to which a task goes, and stores packets there."""

from __future__ import annotations

import os
import re
import stat
import sys

from . import directory
from .errors import DestinationUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence, Union

    from .packet import Packet
    from .tasks import Tasks

    #: a directory, the address of a daemon, or a spool in memory
    Place = Union[str, bytes, 'os.PathLike[str]', Any]

#: the environment variable with the places of tasks: PLACE, or several, separated by commas, with QUEUE= before the places of
#: queues other than the default one
VARIABLE = 'SPOOLD_ENQUEUE_TO'
DEFAULT_QUEUE = 'default'
_ENTRY = re.compile(r'(?:([^=/]*)=)?(.*)', re.DOTALL)
_ON_REDIS = re.compile(r'rediss?(\+\w+)?:.*', re.DOTALL | re.IGNORECASE)
_ADDRESS = re.compile(r'@.+|[^/]*:\d+')
_URL = re.compile(r'[a-z][a-z0-9+.-]*://', re.IGNORECASE)
_FORMS = 'expected a directory (/var/spool/app), the path of a socket (/run/spoold.sock), or its address (host:3031, @abstract)'


def find(queue: str, chain: Sequence[Tasks]) -> Any:
    """Returns the object that stores packets of this queue; it has `store(packets)`.

    chain  the registries through which the task was found, the outermost first. The one nearest to the task that knows a place
           decides
    """
    for registry in reversed(chain):
        if registry._stand_in is not None:
            return registry._stand_in
    known: dict[str, Any] = {}
    for registry in reversed(chain):
        known.update(registry._queues)
        place = registry._queues.get(queue)
        if place is None and (hasattr(registry._spooler, 'store') or queue in (DEFAULT_QUEUE, registry.queue)):
            place = registry._spooler
        if place is not None:
            return to(place)
    daemon = sys.modules.get('spoold_host.named')
    if daemon is not None:
        return _in_daemon(daemon, queue, known)
    named = os.environ.get(VARIABLE) or _spool_of_uwsgi()
    if named:
        places = places_in(named)
        if queue in places:
            return to(places[queue])
        raise _unknown(queue, {**places, **known}, '%s=/var/spool/app,%s=/var/spool/%s' % (VARIABLE, queue, queue))
    if known or any(registry._spooler is not None for registry in chain):
        raise _unknown(queue, known, "Tasks(queues={'%s': '/var/spool/%s'})" % (queue, queue))
    raise DestinationUnknown(
        'nothing says where tasks go; say it in one of three ways: Tasks(spooler=\'/var/spool/app\'), the environment '
        'variable %s=/var/spool/app, or schedule it in a task, whose daemon has a spool' % VARIABLE
    )


def _in_daemon(daemon: Any, queue: str, known: Mapping[str, Any]) -> Any:
    if queue in daemon.queues:
        return to(daemon.queues[queue])
    if queue == DEFAULT_QUEUE:
        return daemon.own_spool
    raise _unknown(queue, {**daemon.queues, **known}, 'the configuration, as spooler-queue = %s=/var/spool/%s' % (queue, queue))


def _unknown(queue: str, known: Mapping[str, Any], where: str) -> DestinationUnknown:
    names = ', '.join(sorted(known)) or 'none'
    return DestinationUnknown('no spool is known for the queue %s (known: %s); give it one in %s' % (queue, names, where))


def places_in(told: Place | Mapping[str, Place], what: str = VARIABLE) -> dict[str, Any]:
    """Returns the place of each queue, from the text of the environment variable, a path, a broker in memory, or a dictionary."""
    if isinstance(told, os.PathLike) or hasattr(told, 'store'):
        return {DEFAULT_QUEUE: told}
    if not isinstance(told, str):
        return checked_queues(told, what)
    places: dict[str, Any] = {}
    for entry in told.split(','):
        match = _ENTRY.fullmatch(entry.strip())
        assert match is not None
        queue, place = match.groups()
        if not place:
            raise DestinationUnknown(
                '%s: expected a directory, the address of a daemon, or QUEUE=ONE, separated by commas; got %r' % (what, told)
            )
        queue = DEFAULT_QUEUE if queue is None else queue
        if queue in places:
            raise DestinationUnknown('%s: two places for the queue %s, %s and %s' % (what, queue, places[queue], place))
        places[queue] = place
    return places


def places_below(root: str, told: Place | Mapping[str, Place], what: str = VARIABLE) -> dict[str, Any]:
    """Returns the same as `places_in`, with relative paths completed by `root`."""
    return {queue: _below(root, place) for queue, place in places_in(told, what).items()}


def _below(root: str, place: Any) -> Any:
    if hasattr(place, 'store') or isinstance(place, str) and not is_path(place):
        return place
    return os.path.join(root, os.path.expanduser(os.fsdecode(place)))


def checked_queues(queues: Any, what: str = 'queues') -> dict[str, Any]:
    if isinstance(queues, str) or not hasattr(queues, 'items'):
        raise TypeError("%s: expected a dictionary such as {'mail': '/var/spool/mail'}, got %r" % (what, queues))
    return dict(queues)


def to(place: Any, sync: bool = True) -> Any:
    """Returns the object that stores packets in this place.

    sync  True: tasks that are stored in a directory survive a power failure
    """
    if hasattr(place, 'store'):
        return place
    if isinstance(place, str) and _ON_REDIS.fullmatch(place):  # the message leaves out the place, which may have a password
        raise DestinationUnknown(
            'Python does not store tasks on Redis itself: name the directory that a daemon forwards there (spooler-fallback), '
            'or the socket of a daemon'
        )
    if isinstance(place, str) and is_address(place):
        return _daemon(place)
    path = os.path.expanduser(os.fsdecode(place))
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if _URL.match(path) or '/' not in path:
            raise DestinationUnknown('there is no spool directory %s: %s' % (path, _FORMS)) from None
        raise DestinationUnknown('there is no spool directory %s: create it as the user of its daemon' % path) from None
    except PermissionError as error:
        raise directory.explained(error, os.path.dirname(path)) from error
    if stat.S_ISSOCK(mode):
        return _daemon(path)
    if not stat.S_ISDIR(mode):
        raise DestinationUnknown('%s is not a directory: %s' % (path, _FORMS))
    return directory.Directory(path, sync)


def _daemon(address: str) -> Any:
    from . import daemon_socket

    return daemon_socket.Daemon(address)


def is_address(place: str) -> bool:
    """True if the place is the address of a daemon's socket, and not a path."""
    return _ADDRESS.fullmatch(place) is not None


def is_path(place: str) -> bool:
    return not is_address(place) and _ON_REDIS.fullmatch(place) is None


def _spool_of_uwsgi() -> str | None:
    """Returns the first spool of the uWSGI in which this code runs; None outside uWSGI."""
    spools = getattr(sys.modules.get('uwsgi'), 'spoolers', None)
    return os.fsdecode(spools[0]) if spools else None


def store(packets: Sequence[tuple[Any, Packet]]) -> None:
    """Stores each packet in its place: all of them, or none. First, packets for directories are written under names that do not
    run; then packets for daemons are sent; then those in directories are published. Raises the first error; then `is_stored` of
    each packet says what became of it."""
    if len(packets) == 1:
        place, packet = packets[0]
        return _store_in(place, [packet])
    places: dict[str, tuple[Any, list[Packet]]] = {}
    for place, packet in packets:
        places.setdefault(place.key, (place, []))[1].append(packet)
    prepared = []
    try:
        for place, of_place in places.values():
            if hasattr(place, 'prepare'):
                prepared.append(place.prepare(of_place))
        for place, of_place in places.values():
            if not hasattr(place, 'prepare'):
                _store_in(place, of_place)
        while prepared:
            prepared.pop(0).publish()
    finally:
        for each in prepared:
            each.discard()


def _store_in(place: Any, packets: list[Packet]) -> None:
    place.store(packets)
    for packet in packets:
        packet.is_stored = True
