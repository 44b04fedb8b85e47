"""Where tasks go."""

import os
import re
import stat
import sys

from . import daemon_socket, directory
from .errors import DestinationUnknown

#: PLACE, or several with QUEUE= before those that are not the default's, separated by commas
VARIABLE = 'SPOOLD_ENQUEUE_TO'
DEFAULT_QUEUE = 'default'
_ENTRY = re.compile(r'(?:([^=/]*)=)?(.*)', re.DOTALL)
_ON_REDIS = re.compile(r'rediss?(\+\w+)?:.*', re.DOTALL | re.IGNORECASE)
_ADDRESS = re.compile(r'@.+|[^/]*:\d+')


def find(queue, spooler, queues):
    """What stores packets of this queue: a function that takes a list of them.

    spooler, queues  what the registry says: a place for any queue, or one for each
    """
    if spooler is not None:
        return _to(spooler)
    if queue in queues:
        return _to(queues[queue])
    daemon = sys.modules.get('spoold_host.named')
    if daemon is not None:
        return _in_daemon(daemon, queue, queues)
    named = os.environ.get(VARIABLE) or _spool_of_uwsgi()
    if named:
        places = _places_in(named)
        if queue in places:
            return _to(places[queue])
        raise _unknown(queue, {**places, **queues}, '%s=/var/spool/app,%s=/var/spool/%s' % (VARIABLE, queue, queue))
    raise DestinationUnknown(
        'it is not said where tasks go; say it in one of three ways: Tasks(spooler=\'/var/spool/app\'), the environment '
        'variable %s=/var/spool/app, or schedule it in a task, whose daemon has a spool' % VARIABLE
    )


def _in_daemon(daemon, queue, queues):
    if queue in daemon.queues:
        return _to(daemon.queues[queue])
    if queue == DEFAULT_QUEUE:
        return lambda packets: [daemon.store(each) for each in packets]  # in its own spool
    raise _unknown(queue, {**daemon.queues, **queues}, 'the configuration, as spooler-queue = %s=/var/spool/%s' % (queue, queue))


def _unknown(queue, known, where):
    names = ', '.join(sorted(known)) or 'none'
    return DestinationUnknown('no spool is known for the queue %s (known: %s); give it one in %s' % (queue, names, where))


def _places_in(text):
    places = {}
    for entry in text.split(','):
        queue, place = _ENTRY.fullmatch(entry.strip()).groups()
        if not place:
            raise DestinationUnknown(
                '%s: expected a directory, the address of a daemon, or QUEUE=ONE, separated by commas; got %r' % (VARIABLE, text)
            )
        places[DEFAULT_QUEUE if queue is None else queue] = place
    return places


def _to(place):
    if isinstance(place, str) and _ON_REDIS.fullmatch(place):  # which may have a password
        raise DestinationUnknown(
            'Python does not store tasks on Redis itself: name the directory that a daemon forwards there (spooler-fallback), '
            'or the socket of a daemon'
        )
    if isinstance(place, str) and _ADDRESS.fullmatch(place):
        return lambda packets: daemon_socket.send(place, packets)
    path = os.fsdecode(place)
    try:
        is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
    except FileNotFoundError:
        raise DestinationUnknown('there is no spool directory %s: create it as the user of its daemon' % path) from None
    return (lambda packets: daemon_socket.send(path, packets)) if is_socket else (lambda packets: directory.store(path, packets))


def _spool_of_uwsgi():
    """The first one of the uWSGI in which this runs."""
    spools = getattr(sys.modules.get('uwsgi'), 'spoolers', None)
    return os.fsdecode(spools[0]) if spools else None
