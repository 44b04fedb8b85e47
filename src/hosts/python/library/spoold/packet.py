"""Named tasks as packets, with the keys `task`, `args` and `kwargs`. docs/spool-format.md explains them."""

from __future__ import annotations

import json
import struct

from .errors import InvalidJobSignatureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence, TypeVar

    Json = TypeVar('Json', 'list[Any]', 'dict[str, Any]')

LIMIT = 0xFFFF
MAX_JSON_BYTES = 1048576
#: this value of `args` says that the arguments are in the body, because the packet has no room for them. It is not JSON
IN_BODY = b'@body'
#: keys that are not headers. Keys that begin with `spooler` are not headers, either
_OURS = frozenset(('task', 'args', 'kwargs', 'id', 'queue', 'at', 'priority', 'body', 'CONTENT_LENGTH'))


class Packet:
    """A packet to be stored: pairs of bytes, and a body."""

    __slots__ = ('pairs', 'body', 'at', 'once', 'priority', 'is_stored', 'ref')

    def __init__(
        self, pairs: list[tuple[bytes, bytes]], body: bytes, at: str | None, once: str | None = None, priority: str | None = None
    ) -> None:
        self.pairs, self.body = pairs, body
        #: the earliest time of the run, as text; None: at once
        self.at = at
        #: the id under which the task is stored only once; None if the caller gave none
        self.once = once
        #: the priority directory for the task; a packet with an id has none
        self.priority = priority
        #: True once the packet is stored; None if that is unknown, because a daemon went away before it answered
        self.is_stored: bool | None = False
        #: the ref of the task, once it is in a spool directory
        self.ref: str | None = None

    def encode(self) -> bytes:
        block = b''.join(_length(key) + key + _length(value) + value for key, value in self.pairs)
        return struct.pack('<BHB', 17, len(block), 0) + block

    def env(self, name: bytes) -> dict[Any, Any]:
        """Returns the dictionary that a handler gets."""
        env: dict[Any, Any] = {'spooler_task_name': name, **dict(self.pairs)}
        if self.body:
            env['body'] = self.body
        return env


class Arguments:
    """The arguments of a task, as JSON."""

    __slots__ = ('args', 'kwargs')

    def __init__(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises InvalidJobSignatureError if the arguments are not JSON, or too large."""
        self.args = _json(name, args, ['argument %d' % (i + 1) for i in range(len(args))], args)
        self.kwargs = _json(name, kwargs, list(kwargs), list(kwargs.values())) if kwargs else b''
        bytes_needed = len(self.args) + len(self.kwargs)
        if bytes_needed > MAX_JSON_BYTES:
            raise InvalidJobSignatureError(
                'the arguments of %s take %d bytes as JSON; %d is the limit: send bytes beside them '
                '(with_options(body=…)), or store the data, and pass its place' % (name, bytes_needed, MAX_JSON_BYTES)
            )

    @property
    def as_body(self) -> bytes:
        return b'{"args":' + self.args + b',"kwargs":' + (self.kwargs or b'{}') + b'}'


def create(
    name: str,
    arguments: Arguments,
    others: Sequence[tuple[str, str]],
    at: str | None,
    headers: Mapping[str, str],
    body: bytes | None,
    once: str | None,
) -> Packet:
    """Returns the packet of a named task. Raises InvalidJobSignatureError if it is too large.

    others  pairs of text for people and events: the id, the queue
    """
    task = [(b'task', name.encode())]
    tail = [(key.encode(), value.encode()) for key, value in [*others, *_checked_headers(name, headers)]]
    if at is not None:
        tail.append((b'at', at.encode()))
    inside = [(b'args', arguments.args)] + ([(b'kwargs', arguments.kwargs)] if arguments.kwargs else [])
    bytes_needed = _bytes_of(task + inside + tail)
    if bytes_needed <= LIMIT:
        return Packet(task + inside + tail, body or b'', at, once)
    if body:
        raise InvalidJobSignatureError(
            'the arguments and headers of %s take %d bytes; beside a body there is room for %d' % (name, bytes_needed, LIMIT)
        )
    if _bytes_of(task + tail) > LIMIT - 16:
        raise InvalidJobSignatureError('the headers of %s take more than the %d bytes of a packet' % (name, LIMIT))
    return Packet(task + [(b'args', IN_BODY)] + tail, arguments.as_body, at, once)


def _bytes_of(pairs: Sequence[tuple[bytes, bytes]]) -> int:
    return sum(4 + len(key) + len(value) for key, value in pairs)


def _checked_headers(name: str, headers: Mapping[str, str]) -> list[tuple[str, str]]:
    for key, value in headers.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError('the headers of %s: expected text for text, got %r: %r' % (name, key, value))
        if not is_header(key) or not key.isprintable() or not key:
            raise ValueError('the headers of %s: %r has another meaning in a packet' % (name, key))
    return list(headers.items())


def is_header(key: str) -> bool:
    return key not in _OURS and not key.startswith('spooler')


def headers_of(env: Mapping[Any, Any]) -> dict[str, str]:
    """Returns the headers of a packet: all keys that have no other meaning."""
    pairs = [(key.decode('utf-8', 'replace'), value) for key, value in env.items() if isinstance(key, bytes)]
    return {key: value.decode('utf-8', 'replace') for key, value in pairs if is_header(key)}


def arguments_of(env: Mapping[Any, Any]) -> tuple[list[Any], dict[str, Any], bytes | None]:
    """Returns the arguments, the keyword arguments and the body of a packet. Raises ValueError if they cannot be read."""
    body = env.get('body')
    if env.get(b'args') == IN_BODY:
        both: dict[str, Any] = _parse('body', body or b'', {})
        return _typed('args in the body', both.get('args', []), []), _typed('kwargs in the body', both.get('kwargs', {}), {}), None
    args: list[Any] = _parse('args', env.get(b'args', b'[]'), [])
    kwargs: dict[str, Any] = _parse('kwargs', env.get(b'kwargs', b'{}'), {})
    return args, kwargs, body


def _json(name: str, value: Any, names: Sequence[str], parts: Sequence[Any]) -> bytes:
    try:
        return _dump(value)
    except (TypeError, ValueError, RecursionError) as error:
        where = next((_fault(each, part) for each, part in zip(names, parts) if not _is_json(part)), '')
        raise InvalidJobSignatureError('the arguments of %s cannot be written as JSON: %s%s' % (name, where, error)) from None


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(',', ':')).encode()


def _is_json(value: Any) -> bool:
    try:
        _dump(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _fault(name: str, value: Any) -> str:
    """Returns the beginning of a message: the name of the argument, and what to write instead."""
    if hasattr(value, '_meta') and hasattr(value, 'pk'):  # a model of Django
        return '%s is a %s, pass its pk: ' % (name, type(value).__name__)
    hints = {'UUID': 'str(…)', 'Decimal': 'str(…)', 'date': '….isoformat()', 'datetime': '….isoformat()', 'time': '….isoformat()'}
    hints.update({'__proxy__': 'str(…)', 'timedelta': '….total_seconds()', 'bytes': 'with_options(body=…)', 'set': 'list(…)'})
    hint = hints.get(type(value).__name__)
    return '%s%s: ' % (name, '' if hint is None else ', pass ' + hint)


def _parse(key: str, text: bytes, kind: Json) -> Json:
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError('%s: expected JSON, got %.80r: %s' % (key, text, error)) from None
    return _typed(key, value, kind)


def _typed(key: str, value: Any, kind: Json) -> Json:
    if not isinstance(value, type(kind)):
        raise ValueError('%s: expected a JSON %s, got %.80r' % (key, 'array' if isinstance(kind, list) else 'object', value))
    return value


def _length(part: bytes) -> bytes:
    return struct.pack('<H', len(part))
