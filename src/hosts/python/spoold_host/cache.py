"""uwsgi.cache_*: a simple cache that all workers of a daemon share, without sizes, blocks or names of caches."""

from .wire import CallError

__all__ = (
    '_cache_start cache_get cache_set cache_update cache_del cache_exists cache_clear cache_keys cache_num '
    'cache_inc cache_dec cache_mul cache_div'
).split()

_wire = None


def _cache_start(wire):
    global _wire
    _wire = wire


def _ask(what, key=b'', value=b'', expires=0, cache=None):
    try:
        return _wire.call('cache', what.encode(), _bytes(cache or ''), _bytes(key), _bytes(value), b'%d' % expires)
    except CallError as refusal:
        raise ValueError(str(refusal)) from None


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


def _true(answer):
    return True if answer and answer[0] == b'1' else None


def cache_get(key, cache=None):
    found = _ask('get', key, cache=cache)
    return found[0] if found else None


def cache_set(key, value, expires=0, cache=None):
    """Sets a value only if the key does not exist."""
    return _true(_ask('set', key, value, expires, cache))


def cache_update(key, value, expires=0, cache=None):
    return _true(_ask('update', key, value, expires, cache))


def cache_del(key, cache=None):
    return _true(_ask('del', key, cache=cache))


def cache_exists(key, cache=None):
    return True if _ask('get', key, cache=cache) else None


def cache_clear(cache=None):
    return _true(_ask('clear', cache=cache))


def cache_keys(cache=None):
    return _ask('keys', cache=cache)


def cache_num(key, cache=None):
    """Returns the number that cache_inc has written: eight bytes, signed, little-endian. 0 if there is no such key."""
    found = cache_get(key, cache)
    return int.from_bytes(found[:8], 'little', signed=True) if found else 0


def cache_inc(key, value=1, expires=0, cache=None):
    return _true(_ask('inc', key, b'%d' % value, expires, cache))


def cache_dec(key, value=1, expires=0, cache=None):
    return _true(_ask('dec', key, b'%d' % value, expires, cache))


def cache_mul(key, value=2, expires=0, cache=None):
    return _true(_ask('mul', key, b'%d' % value, expires, cache))


def cache_div(key, value=2, expires=0, cache=None):
    return _true(_ask('div', key, b'%d' % value, expires, cache))
