"""A named task as a packet: the keys `task`, `args` and `kwargs`; docs/spool-format.md explains them."""

import json
import struct

from .errors import InvalidJobSignatureError

LIMIT = 0xFFFF
MAX_JSON_BYTES = 1048576
#: as the value of `args`: the arguments are in the body, because the packet has no room for them. It is not JSON
IN_BODY = b'@body'


class Packet:
    """What is stored: pairs of bytes, and a body. `at` is its time as text, if it has one."""

    __slots__ = ('pairs', 'body', 'at')

    def __init__(self, pairs, body, at):
        self.pairs, self.body, self.at = pairs, body, at

    def encode(self):
        block = b''.join(_length(key) + key + _length(value) + value for key, value in self.pairs)
        return struct.pack('<BHB', 17, len(block), 0) + block


def create(name, args, kwargs, others, at):
    """Raises InvalidJobSignatureError if the arguments are not JSON.

    others  pairs of text for people and events: the id, the queue
    """
    task = [(b'task', name.encode())]
    tail = [(key.encode(), value.encode()) for key, value in others]
    if at is not None:
        tail.append((b'at', at.encode()))
    inside = [(b'args', _json(name, args))] + ([(b'kwargs', _json(name, kwargs))] if kwargs else [])
    bytes_needed = sum(len(value) for _, value in inside)
    if bytes_needed > MAX_JSON_BYTES:
        raise InvalidJobSignatureError(
            'the arguments of %s take %d bytes as JSON; %d is the limit: store the data, and pass its place'
            % (name, bytes_needed, MAX_JSON_BYTES)
        )
    if sum(4 + len(key) + len(value) for key, value in task + inside + tail) <= LIMIT:
        return Packet(task + inside + tail, b'', at)
    return Packet(task + [(b'args', IN_BODY)] + tail, _json(name, {'args': args, 'kwargs': kwargs}), at)


def arguments_of(env):
    """The arguments and keyword arguments of a packet. Raises ValueError if they cannot be read."""
    if env.get(b'args') == IN_BODY:
        both = _parse('body', env.get('body', b''), dict)
        return _typed('args in the body', both.get('args', []), list), _typed('kwargs in the body', both.get('kwargs', {}), dict)
    return _parse('args', env.get(b'args', b'[]'), list), _parse('kwargs', env.get(b'kwargs', b'{}'), dict)


def _json(name, value):
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(',', ':')).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJobSignatureError('the arguments of %s cannot be written as JSON: %s' % (name, error)) from None


def _parse(key, text, kind):
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError('%s: expected JSON, got %.80r: %s' % (key, text, error)) from None
    return _typed(key, value, kind)


def _typed(key, value, kind):
    if not isinstance(value, kind):
        raise ValueError('%s: expected a JSON %s, got %.80r' % (key, 'array' if kind is list else 'object', value))
    return value


def _length(part):
    return struct.pack('<H', len(part))
