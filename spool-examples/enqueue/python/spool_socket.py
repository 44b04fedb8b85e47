"""Sends tasks to the socket of spoold or uWSGI. Copy this file and spool.py.

    from spool_socket import send
    send({"to": "joe"}, "host:3031", at=time.time() + 60, priority=5)
"""
import contextlib
import socket

from spool import encode


class Refused(Exception):
    """The server answered that it did not store the task."""


def send(dictionary, address, spooler=None, at=None, priority=None, body=b"", timeout=10):
    """Sends one task, and returns when the server has stored it.

    dictionary, at, priority   as for spool.spool
    address  "host:port", "[ipv6]:port", "/path.sock" or "@abstract"
    spooler  which of the server's spool directories; by default the first one
    body     bytes; only spoold accepts a body over a socket, uWSGI silently drops it
    timeout  seconds, for the connection and for the answer

    Raises ValueError or TypeError for invalid arguments, before anything is sent; Refused if the task was not stored;
    OSError if it may have been stored.
    """
    vars = dict(dictionary)
    if spooler is not None:
        vars["spooler"] = spooler
    if body:
        vars["CONTENT_LENGTH"] = len(body)  # the packet itself has no field for the size of the body
    packet = encode(vars, at, priority)
    answer = _exchange(packet + body, address, timeout)
    if len(answer) < 4:
        raise ConnectionError(
            f"{address} closed without an answer to {len(packet)} bytes: its buffer-size may be smaller, or it has no spooler"
        )
    if answer == b"\xff\0\0\0":
        raise Refused(f"{address} did not store the task: see its log (is the spooler one of its own? is the disk full?)")
    if answer != b"\xff\0\0\1":
        raise ConnectionError(f"{address} does not speak the uwsgi protocol, it answered {answer!r}")


def _exchange(request, address, timeout):
    """Sends a request, and returns the first four bytes of the server's answer; fewer if it sends less."""
    answer = b""
    with _connect(address, timeout) as connection:
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a refusal may arrive before the body's end
                connection.sendall(request)
            with contextlib.suppress(ConnectionResetError):  # a server that has not read everything resets the connection
                while len(answer) < 4:
                    part = connection.recv(4 - len(answer))
                    if not part:
                        break
                    answer += part
        except socket.timeout:
            raise TimeoutError(f"{address} did not answer within {timeout} s") from None
    return answer


def _connect(address, timeout):
    if address[0] not in "/@":
        host, _, port = address.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), timeout)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout)
    try:
        # the abstract socket names of uWSGI and spoold end with a NUL
        connection.connect(f"\0{address[1:]}\0" if address[0] == "@" else address)
    except OSError:
        connection.close()
        raise
    return connection
