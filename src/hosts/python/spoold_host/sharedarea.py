"""uwsgi.sharedarea_*: memory that all workers of a daemon share (plugins/python/uwsgi_pymodule.c, core/sharedarea.c)."""

import fcntl
import mmap
import os
import struct
import threading

from .process import uninterrupted

FIRST_FD = 7

_areas = []


class _Area:
    def __init__(self, fd, size):
        os.set_inheritable(fd, False)
        self.fd = fd
        self.memory = mmap.mmap(fd, size)
        # a record lock excludes other processes, but not other threads of this one
        self.threads = threading.RLock()
        self.held = 0

    def lock(self, kind):
        self.threads.acquire()
        if self.held == 0:
            try:
                fcntl.lockf(self.fd, kind)
            except BaseException:
                self.threads.release()  # a signal handler ended the wait
                raise
        self.held += 1

    def unlock(self):
        if self.held == 0:
            return
        self.held -= 1
        if self.held == 0:
            fcntl.lockf(self.fd, fcntl.LOCK_UN)
        self.threads.release()

    def locked(self, kind, function, *args):
        """Calls a function while the area is locked, which a signal handler that raises would leave locked."""
        return uninterrupted(self._locked, kind, function, *args)

    def _locked(self, kind, function, *args):
        self.lock(kind)
        try:
            return function(*args)
        finally:
            self.unlock()


def _sharedarea_start(sizes):
    for i, size in enumerate(sizes):
        _areas.append(_Area(FIRST_FD + i, int(size)))


def _area(number, position, length, name):
    if 0 <= number < len(_areas) and position >= 0 and length >= 0:
        area = _areas[number]
        if position + length <= len(area.memory):
            return area
    raise _error(name)


def _error(name):
    return ValueError('error calling uwsgi_sharedarea_%s()' % name)


def sharedarea_read(id, position, length=0):
    if length == 0 and 0 <= id < len(_areas):
        length = len(_areas[id].memory) - position
    area = _area(id, position, length, 'read')
    return area.locked(fcntl.LOCK_SH, area.memory.__getitem__, slice(position, position + length))


def sharedarea_write(id, position, value):
    data = value.encode() if isinstance(value, str) else bytes(value)
    area = _area(id, position, len(data), 'write')
    area.locked(fcntl.LOCK_EX, area.memory.__setitem__, slice(position, position + len(data)), data)


def sharedarea_memoryview(id):
    if not 0 <= id < len(_areas):
        raise ValueError('cannot get a memoryview object from sharedarea %d' % id)
    return memoryview(_areas[id].memory)


def sharedarea_rlock(id):
    _area(id, 0, 0, 'rlock').lock(fcntl.LOCK_SH)


def sharedarea_wlock(id):
    _area(id, 0, 0, 'wlock').lock(fcntl.LOCK_EX)


def sharedarea_unlock(id):
    _area(id, 0, 0, 'unlock').unlock()


def _number_functions(bits, code):
    size = bits // 8
    number = struct.Struct('<' + code)
    half, whole = 1 << bits - 1, 1 << bits

    def wrapped(value):
        return (value + half) % whole - half

    def read(id, position):
        area = _area(id, position, size, 'read%d' % bits)
        return area.locked(fcntl.LOCK_SH, number.unpack_from, area.memory, position)[0]

    def write(id, position, value):
        # as in uWSGI: write8 takes an unsigned number, write16 keeps the lowest 16 bits, the larger ones refuse what does not fit
        if bits == 8 and not 0 <= value < whole:
            raise OverflowError('unsigned byte integer is %s' % ('less than minimum' if value < 0 else 'greater than maximum'))
        if bits > 16 and not -half <= value < half:
            raise OverflowError('%d does not fit into %d bits' % (value, bits))
        change(id, position, 'write', lambda before: value)

    def change(id, position, name, function):
        area = _area(id, position, size, '%s%d' % (name, bits))
        area.locked(fcntl.LOCK_EX, replace, area.memory, position, function)

    def replace(memory, position, function):
        before = number.unpack_from(memory, position)[0]
        number.pack_into(memory, position, wrapped(function(before)))

    def inc(id, position, value=1):
        change(id, position, 'inc', lambda before: before + value)

    def dec(id, position, value=1):
        change(id, position, 'dec', lambda before: before - value)

    return read, write, inc, dec


sharedarea_read8, sharedarea_write8, _, _ = _number_functions(8, 'b')
sharedarea_read16, sharedarea_write16, _, _ = _number_functions(16, 'h')
sharedarea_read32, sharedarea_write32, sharedarea_inc32, sharedarea_dec32 = _number_functions(32, 'i')
sharedarea_read64, sharedarea_write64, sharedarea_inc64, sharedarea_dec64 = _number_functions(64, 'q')
sharedarea_readbyte, sharedarea_writebyte = sharedarea_read8, sharedarea_write8
sharedarea_readlong, sharedarea_writelong, sharedarea_inclong = sharedarea_read64, sharedarea_write64, sharedarea_inc64

__all__ = [name for name in dir() if name.startswith('sharedarea_')] + ['_sharedarea_start']
