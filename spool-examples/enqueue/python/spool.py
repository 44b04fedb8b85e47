"""Stores tasks for spoold or uWSGI. Copy this file: it needs Python 3.7 or later, and nothing else.

    from spool import spool
    path = spool({"to": "joe"}, "/var/spool/app", at=time.time() + 60, priority=5, body=b"hello")
"""
import itertools
import math
import os
import random
import re
import socket
import struct
import time

LIMIT = 0xFFFF  # bytes: the size of the block and each length in it are 16-bit numbers
_counter = itertools.count(1)


def spool(dictionary, spooler, at=None, priority=None, body=b"", sync=True):
    """Stores one task, and returns the path of its file.

    dictionary  keys and values, in order: str (as UTF-8), bytes, int or float
    spooler     the spool directory, which has to exist
    at          do not run before this time: epoch seconds, may have a fraction
    priority    the priority directory, digits only; lower runs first if the daemon has spooler-ordered
    body        bytes or str, of any size
    sync        return only once the task is on disk, where it survives a power failure

    Raises ValueError or TypeError for invalid arguments, before anything is written, and OSError if the task could not
    be stored.
    """
    packet = encode(dictionary, at, priority)
    directory = spooler
    if priority is not None:
        directory = os.path.join(spooler, str(priority))
        try:
            os.mkdir(directory)  # 0777 minus the umask
        except FileExistsError:
            pass
    seconds, micros = divmod(time.time_ns() // 1000, 1_000_000)
    name = f"uwsgi_spoolfile_on_{socket.gethostname()}_{os.getpid()}_{next(_counter)}_{random.getrandbits(31)}_{seconds}_{micros}"
    # No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
    hidden, path = os.path.join(directory, "." + name), os.path.join(directory, name)
    try:
        with open(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(packet)
            file.write(_bytes("body", body))
            file.flush()
            if at is not None:  # after the last write, which sets the mtime to now
                os.utime(file.fileno(), (math.floor(at), math.floor(at)))
            if sync:
                os.fsync(file.fileno())
        os.rename(hidden, path)
    except BaseException:
        if os.path.lexists(hidden):
            os.unlink(hidden)
        raise
    if sync:  # syncs the rename, and a new priority directory
        for each in {directory, spooler}:
            fd = os.open(each, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
    return path


def encode(dictionary, at=None, priority=None):
    """Returns the packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian."""
    for key in ("at", "priority", "body"):
        if key in dictionary or key.encode() in dictionary:
            raise ValueError(f'the key "{key}" is not for the dictionary: give it as an argument')
    pairs = list(dictionary.items())
    if at is not None:
        if not (math.isfinite(at) and at >= 0):
            raise ValueError(f"at must be epoch seconds, got {at!r}")
        pairs.append(("at", f"{at:.6f}".rstrip("0").rstrip(".")))
    if priority is not None:
        if not re.fullmatch("[0-9]+", str(priority)):
            raise ValueError(f"priority must be digits, got {priority!r}")
        pairs.append(("priority", priority))
    block = b""
    for key, value in pairs:
        name, key, value = str(key)[:40], _bytes(key, key), _bytes(key, value)
        if not key:
            raise ValueError("a key is empty")
        if len(key) > LIMIT:
            raise ValueError(f'the key "{name}" has {len(key)} bytes, the limit is {LIMIT}')
        if len(value) > LIMIT:
            raise ValueError(f'the value of "{name}" has {len(value)} bytes, the limit is {LIMIT}: use the body')
        block += struct.pack("<H", len(key)) + key + struct.pack("<H", len(value)) + value
    if len(block) > LIMIT:
        raise ValueError(f"the keys and values take {len(block)} bytes, the limit is {LIMIT}: use the body")
    return struct.pack("<BHB", 17, len(block), 0) + block


def _bytes(key, value):
    if isinstance(value, (str, int, float)):
        return str(value).encode()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    raise TypeError(f'the value of "{key}" must be str, bytes, int or float, got {type(value).__name__}')
