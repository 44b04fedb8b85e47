"""Stores packets as files of a spool, as docs/spool-format.md says and spoold itself does."""

import itertools
import os
import random
import socket
import time

_counter = itertools.count(1)


def store(directory, packets):
    """All or, if that fails before the first one is published, none. Returns once they are on disk."""
    names = [_name() for _ in packets]
    # hidden from every daemon, and swept by spoold if we die
    hidden = [os.path.join(directory, '.spoold-%s.tmp' % name) for name in names]
    paths = [os.path.join(directory, name) for name in names]
    try:
        owner = _owner(directory)
        for path, packet in zip(hidden, packets):
            _write(path, packet, owner)
        for before, after in zip(hidden, paths):
            os.rename(before, after)
    except BaseException:
        for path in hidden:
            try:
                os.unlink(path)
            except OSError:
                pass
        raise
    _sync(directory)


def _write(path, packet, owner):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), 'wb') as file:
        file.write(packet.encode())
        file.write(packet.body)
        file.flush()
        if owner is not None:
            os.fchown(file.fileno(), *owner)
        if packet.at is not None:  # after the last write, which sets the mtime to now
            seconds = int(packet.at.partition('.')[0])
            os.utime(file.fileno(), (seconds, seconds))
        os.fsync(file.fileno())


def _owner(directory):
    """Root stores for the owner of the spool, whose daemon could not run a task of root's."""
    if os.geteuid() != 0:
        return None
    found = os.stat(directory)
    return None if found.st_uid == 0 else (found.st_uid, found.st_gid)


def _sync(directory):
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _name():
    """As uWSGI names a file."""
    seconds, micros = divmod(time.time_ns() // 1000, 1000000)
    return 'uwsgi_spoolfile_on_%s_%d_%d_%d_%d_%d' % (
        socket.gethostname(),
        os.getpid(),
        next(_counter),
        random.SystemRandom().getrandbits(31),
        seconds,
        micros,
    )
