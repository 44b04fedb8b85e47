# Enqueues over a socket as fast as possible: `socket-client.py PORT COUNT PROCESSES one|open WINDOW`.
# Prints the elapsed seconds.
import os, socket, struct, sys, time

port, count, processes = (int(each) for each in sys.argv[1:4])
mode, window = sys.argv[4], int(sys.argv[5])


def packet(n, modifier2):
    pairs = ((b'hello', b'world'), (b'n', b'%d' % n), (b'foo', b'bar'))
    block = b''.join(struct.pack('<H', len(each)) + each for pair in pairs for each in pair)
    return struct.pack('<BHB', 17, len(block), modifier2) + block


def read(connection, size):
    received = b''
    while len(received) < size:
        chunk = connection.recv(65536)
        if not chunk:
            break
        received += chunk
    return received


def check(received, expected):
    if received != b'\xff\x00\x00\x01' * expected:
        raise SystemExit('refused: %r' % received[:40])


def one(numbers):
    for n in numbers:
        connection = socket.create_connection(('127.0.0.1', port))
        connection.sendall(packet(n, 0))
        check(read(connection, 4), 1)
        connection.close()


def kept_open(numbers):
    connection = socket.create_connection(('127.0.0.1', port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for begin in range(0, len(numbers), window):
        part = numbers[begin:begin + window]
        connection.sendall(b''.join(packet(n, 1) for n in part))
        check(read(connection, 4 * len(part)), len(part))


begun = time.monotonic()
children = []
for i in range(processes):
    pid = os.fork()
    if pid == 0:
        (one if mode == 'one' else kept_open)(range(i, count, processes))
        os._exit(0)
    children.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in children]
if any(codes):
    raise SystemExit('a client failed')
print(time.monotonic() - begun)
