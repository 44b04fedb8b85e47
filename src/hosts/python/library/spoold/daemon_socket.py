"""Sends packets to the socket of a daemon; docs/network-protocol.md explains it."""

import contextlib
import socket

#: seconds, for the connection and for each answer
_PATIENCE = 10
_STORED, _REFUSED = b'\xff\0\0\1', b'\xff\0\0\0'


def send(address, packets):
    """Returns when the daemon has stored all of them. Raises OSError, and then those before may have been stored."""
    for packet in packets:
        answer = _exchange(address, packet)
        if answer == _REFUSED:
            raise OSError('%s did not store the task: see its log (is the disk full?)' % address)
        if answer != _STORED:
            raise ConnectionError('%s: expected the answer of a daemon, got %r; the task may have been stored' % (address, answer))


def _exchange(address, packet):
    if packet.body:
        packet.pairs.append((b'CONTENT_LENGTH', b'%d' % len(packet.body)))
    answer = b''
    with _connect(address) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a refusal may arrive before the body's end
            connection.sendall(packet.encode() + packet.body)
        with contextlib.suppress(ConnectionResetError):
            while len(answer) < 4:
                part = connection.recv(4 - len(answer))
                if not part:
                    break
                answer += part
    return answer


def _connect(address):
    if address[0] not in '/@':
        host, _, port = address.rpartition(':')
        return socket.create_connection((host.strip('[]'), int(port)), _PATIENCE)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_PATIENCE)
    try:
        # the abstract names of uWSGI and spoold end with a NUL
        connection.connect('\0%s\0' % address[1:] if address[0] == '@' else address)
    except OSError:
        connection.close()
        raise
    return connection
