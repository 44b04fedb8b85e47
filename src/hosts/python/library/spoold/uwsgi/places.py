"""Finds where the tasks of `uwsgi.spool` go: as the program or the environment says, or as the ini of the daemon says."""

from __future__ import annotations

import math
import os
import sys
import time

from ..uwsgi_module import _HERE, _NOT_HERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

ENQUEUE_TO, INI = 'SPOOLD_ENQUEUE_TO', 'SPOOLD_INI'
UNTOLD = (
    'nothing says where tasks go: set the environment variable %s=/var/spool/app, or %s=/etc/app.ini to the ini that spoold runs, '
    'or call spoold.uwsgi.use(ini=…)' % (ENQUEUE_TO, INI)
)
#: seconds: the longest wait for the program `spoold config`, which takes a fifth of a second
_PATIENCE = 60
#: seconds for which an ini that cannot be read is not read again
_FAULT_LASTS = 5.0


class Spool:
    """A place for tasks: a directory, or the address of a daemon."""

    __slots__ = ('name', 'is_synced')

    def __init__(self, name: str, is_synced: bool = True) -> None:
        self.name, self.is_synced = name, is_synced


class Told:
    """The spools and the options of the daemon, as far as this process knows them."""

    __slots__ = ('spools', 'options', 'fault')

    def __init__(self, spools: Sequence[Spool], options: Mapping[str, bytes], fault: str | None = None) -> None:
        self.spools = spools
        #: the value of `uwsgi.opt`. It always has a `spooler`, because `@spool` looks for that
        self.options = {'spooler': b'', **_HERE, **{key: value for key, value in options.items() if key not in (*_NOT_HERE, 'skip-atexit')}}
        #: why tasks cannot be stored; None if they can
        self.fault = fault


_used: tuple[str | None, str | None] = (None, None)
_told: Told | None = None
_told_by: tuple[str | None, str | None] = (None, None)
_told_until = 0.0


def use(ini: str | None, enqueue_to: str | None) -> None:
    global _used, _told
    _used, _told = (None if ini is None else os.path.abspath(ini), enqueue_to), None


def told() -> Told:
    """Returns the spools and options. They are read once, and again if `use` or the environment changes, so a process that reads
    them before it forks has them in its children. A fault is kept only for a short time, because it may have been repaired."""
    global _told, _told_by, _told_until
    by = _used if _used != (None, None) else (os.environ.get(INI), os.environ.get(ENQUEUE_TO))
    if _told is None or by != _told_by or time.monotonic() > _told_until:
        ini, enqueue_to = by
        _told = _of_places(enqueue_to) if enqueue_to else _of_ini(ini) if ini else Told((), {}, UNTOLD)
        _told_by, _told_until = by, math.inf if _told.fault is None else time.monotonic() + _FAULT_LASTS
    return _told


def find(told: Told, name: bytes | None) -> Spool:
    """Returns the spool for the key `spooler`: its real path, its configured one, or any other path that leads there. Raises
    ValueError."""
    if told.fault is not None:
        raise ValueError(told.fault)
    if not name:
        return told.spools[0]
    text = os.fsdecode(name)
    for wanted in (text, os.path.realpath(text)):
        for spool in told.spools:
            if spool.name == wanted:
                return spool
    if is_socket(told.spools[0].name):
        return told.spools[0]  # the daemon behind the socket knows its own spools
    import json

    raise ValueError('spooler must be one of %s, got %s' % (', '.join(spool.name for spool in told.spools), json.dumps(text)))


def _of_places(told: str) -> Told:
    from ..destination import DEFAULT_QUEUE, places_in
    from ..errors import DestinationUnknown

    try:
        places = places_in(told)
        if DEFAULT_QUEUE not in places:
            raise DestinationUnknown('%s: expected a place for tasks without a queue, got %r' % (ENQUEUE_TO, told))
    except DestinationUnknown as error:
        return Told((), {}, str(error))
    names = [_name_of(each) for each in (places.pop(DEFAULT_QUEUE), *places.values())]
    return Told([Spool(name) for name in names], {'spooler': os.fsencode(names[0])})


def _name_of(place: str) -> str:
    from ..destination import is_path

    return os.path.realpath(os.path.expanduser(place)) if is_path(place) else place


def is_socket(name: str) -> bool:
    import stat

    from ..destination import is_address

    try:
        return is_address(name) or stat.S_ISSOCK(os.stat(name).st_mode)
    except OSError:
        return False


def _of_ini(ini: str) -> Told:
    import subprocess

    try:
        configuration = _ask_program(ini)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        fault = 'the configuration %s cannot be read: %s' % (ini, error)
        sys.stderr.write('spoold.uwsgi: %s\n' % fault)
        return Told((), {}, fault)
    spools = [Spool(each['spool'], each['isSynced']) for each in configuration['spools']]
    options = {key: os.fsencode(value) for key, value in configuration['options']}
    if not spools:
        return Told((), options, '%s has no spool: expected spooler = /var/spool/app, or spooler-external' % ini)
    return Told(spools, {**options, 'spooler': os.fsencode(spools[0].name)})


def _ask_program(ini: str) -> Any:
    """Returns the output of `spoold config`, which resolves the ini as the daemon does."""
    import json
    import subprocess

    from ..program import find_program

    environment = {name: value for name, value in os.environ.items() if name != INI}
    done = subprocess.run(
        [find_program(), 'config', '--as-json', '--with-secrets', ini],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=_PATIENCE,
    )
    if done.returncode != 0:
        raise ValueError(done.stderr.decode('utf-8', 'replace').strip() or 'spoold config ended with %d' % done.returncode)
    return json.loads(done.stdout.decode())
