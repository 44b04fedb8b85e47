"""Sends packets to the socket of a daemon. docs/network-protocol.md explains the protocol."""

from __future__ import annotations

import contextlib
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from typing import Iterator, Sequence

    from .packet import Packet

#: seconds: the longest wait for the connection, and for each answer
_PATIENCE = 10
_STORED, _REFUSED, _PONG = b'\xff\0\0\1', b'\xff\0\0\0', b'\x64\0\0\1'
#: the value of modifier2 that keeps the connection open after the answer
_KEEP_OPEN = b'\1'
#: uWSGI's packet for a signal without its last byte, which is the number of the signal
_SIGNAL = b'\x6e\0\0'
_PING = b'\x64\0\0' + _KEEP_OPEN
#: the number of packets that are sent before the answer to the first of them must have come
_AHEAD = 64


class Daemon:
    """The address of a daemon's socket, or of a uWSGI's."""

    def __init__(self, address: str) -> None:
        self.key = self._address = address

    def store(self, packets: Sequence[Packet]) -> None:
        """Returns when the daemon has stored all packets. Raises OSError; then `is_stored` says what became of each."""
        for packet in packets:
            if packet.once is not None:
                raise ValueError('an id needs a spool directory; %s is a socket' % self._address)
        if len(packets) > 1 and self._send_together(packets):
            return
        for packet in packets:
            with self._connect() as connection:
                self._send(connection, packet, b'\0')
                self._settle(packet, _answer(connection))

    def _send_together(self, packets: Sequence[Packet]) -> bool:
        """Sends all packets over one connection. Returns False if the server takes one packet per connection, as a uWSGI does."""
        from collections import deque

        with self._connect() as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(_PING + _PING)
            if _answer(connection) != _PONG or _answer(connection) != _PONG:
                return False
            sent: deque[Packet] = deque()
            error: Exception | None = None
            for packet in packets:
                if len(sent) == _AHEAD:
                    error = self._settled(sent.popleft(), connection)
                if error is not None:
                    break
                sent.append(packet)
                self._send(connection, packet, _KEEP_OPEN)
            while sent:  # the answers that are still to come; after an error too, for the packets that were sent before it
                error = self._settled(sent.popleft(), connection) or error
            if error is not None:
                raise error
        return True

    def _settled(self, packet: Packet, connection: socket.socket) -> Exception | None:
        try:
            self._settle(packet, _answer(connection))
        except OSError as error:
            return error
        return None

    def _settle(self, packet: Packet, answer: bytes) -> None:
        packet.is_stored = True if answer == _STORED else False if answer == _REFUSED else None
        if answer == _REFUSED:
            raise OSError('%s did not store the task: see its log (is the disk full?)' % self._address)
        if answer != _STORED:
            raise ConnectionError(
                '%s: expected the answer of a daemon, got %r; the task may have been stored' % (self._address, answer)
            )

    @staticmethod
    def _send(connection: socket.socket, packet: Packet, modifier2: bytes) -> None:
        if packet.body and not any(key == b'CONTENT_LENGTH' for key, _ in packet.pairs):
            packet.pairs.append((b'CONTENT_LENGTH', b'%d' % len(packet.body)))
        encoded = packet.encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a refusal may arrive before the body's end
            connection.sendall(encoded[:3] + modifier2 + encoded[4:] + packet.body)

    @contextlib.contextmanager
    def _connect(self) -> Iterator[socket.socket]:
        connection = _open(self._address)
        try:
            yield connection
        finally:
            connection.close()


def raise_signal(number: int, address: str) -> None:
    """Sends a signal to an address, as `uwsgi --signal` does. Raises OSError if nobody answers, and ValueError for a refusal."""
    try:
        with _open(address) as peer:
            peer.sendall(_SIGNAL + bytes([number]))
            answer = _answer(peer)
    except OSError:
        raise OSError('unable to deliver signal %d to node %s' % (number, address)) from None
    if answer[3:] != b'\1':
        raise ValueError('node %s rejected signal %d' % (address, number))


def _answer(connection: socket.socket) -> bytes:
    """Returns the answer: four bytes, or fewer if the connection ends."""
    answer = b''
    with contextlib.suppress(ConnectionResetError):
        while len(answer) < 4:
            part = connection.recv(4 - len(answer))
            if not part:
                break
            answer += part
    return answer


def _open(address: str) -> socket.socket:
    if address[0] not in '/@':
        host, _, port = address.rpartition(':')
        return socket.create_connection((host.strip('[]') or '127.0.0.1', int(port)), _PATIENCE)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_PATIENCE)
    try:
        # the abstract names of uWSGI and spoold end with a NUL
        connection.connect('\0%s\0' % address[1:] if address[0] == '@' else address)
    except OSError:
        connection.close()
        raise
    return connection
