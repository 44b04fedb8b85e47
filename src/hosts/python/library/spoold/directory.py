"""Stores packets as task files in a spool, as docs/spool-format.md says and spoold itself does."""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Sequence

    from .packet import Packet

_counter = itertools.count(1)
#: files that are synced side by side, each of which is open, and threads that wait for that
_MOST_OPEN, _MOST_THREADS = 128, 16
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_ENTER = os.O_RDONLY | os.O_DIRECTORY
_OTHERS_WRITE, _MOST_LINKS = 0o022, 40
_IDS = '.spoold/ids'
#: the text of the link of an id: a ref with a name that spoold makes
_PROMISED = re.compile(r'(?:[0-9]{1,255}/)?uwsgi_spoolfile_on_[^/]+')


class Refused(PermissionError):
    """spoold refuses to store; the message says what to do."""


class Directory:
    """A spool in a directory. All work is done below a descriptor of the directory, so it is safe if another directory gets the
    path meanwhile."""

    def __init__(self, path: str, sync: bool = True) -> None:
        """
        sync  True: stored tasks survive a power failure
        """
        self.path, self._sync = path, sync

    @property
    def key(self) -> str:
        return os.path.realpath(self.path)

    def store(self, packets: Sequence[Packet]) -> None:
        """Stores all packets, or none if it fails before the first one is published. Returns once they are on disk."""
        self.prepare(packets).publish()

    def prepare(self, packets: Sequence[Packet]) -> Prepared:
        """Writes the packets to disk under names that no daemon runs. The sweep of spoold removes them if this process dies."""
        try:
            return Prepared(self.path, packets, self._sync)
        except Refused:
            raise
        except OSError as error:
            raise explained(error, self.path) from error


class Prepared:
    """Packets that are on disk, but no tasks yet. Call `publish` or `discard`, once."""

    def __init__(self, path: str, packets: Sequence[Packet], sync: bool) -> None:
        self._path, self._is_synced = path, sync
        self._fd, self._owner = _hold(path)
        self._priorities: dict[str, int] = {}
        #: the packets, each with the name of its file; None: a task with the packet's id is already stored, or promised
        self._files: list[tuple[Packet, str | None]] = []
        try:
            self._check(packets)
            self._write(packets)
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Makes the packets tasks. Raises OSError; then `is_stored` of each packet says what became of it."""
        try:
            if any(packet.once is not None for packet, _ in self._files):
                self._promise()
            for packet, name in self._files:
                if name is not None and packet.once is None:
                    self._rename(name, self._directory_of(packet))
                    packet.is_stored = True
                    packet.ref = name if packet.priority is None else '%s/%s' % (packet.priority, name)
            if self._is_synced:
                for fd in (*self._priorities.values(), self._fd):
                    os.fsync(fd)
        except OSError as error:
            raise explained(error, self._path) from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Removes the files that were not published."""
        for packet, name in self._files:
            if name is not None and not packet.is_stored:
                try:
                    os.unlink(_hidden(name), dir_fd=self._directory_of(packet))
                except OSError:
                    pass  # the sweep removes the file later
        self._files = []
        while self._priorities:
            os.close(self._priorities.popitem()[1])
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _check(self, packets: Sequence[Packet]) -> None:
        """Raises Refused if root is to store an id for another user: an id is a link below .spoold, and the owner of .spoold may
        exchange that directory at any time."""
        if self._owner is not None and any(packet.once is not None for packet in packets):
            raise Refused(
                errno.EPERM,
                'root stores no task with an id in %s, which is a spool of uid %d: run this as uid %d, or call spoold enqueue'
                % (self._path, self._owner[0], self._owner[0]),
            )

    def _write(self, packets: Sequence[Packet]) -> None:
        sync = _Syncer() if len(packets) > 1 and self._is_synced else None
        try:
            for packet in packets:
                if packet.once is not None and self._find(packet.once) is not None:
                    self._files.append((packet, None))
                    continue
                name = _name()
                self._files.append((packet, name))
                fd = self._create(name, packet)
                if sync is None:
                    try:
                        if self._is_synced:
                            os.fdatasync(fd)
                    finally:
                        os.close(fd)
                else:
                    sync.take(fd)
        finally:
            if sync is not None:
                sync.end()
        if sync is not None and sync.error is not None:
            raise sync.error

    def _create(self, name: str, packet: Packet) -> int:
        fd = os.open(_hidden(name), _NEW_FILE, 0o600, dir_fd=self._directory_of(packet))
        try:
            data = memoryview(packet.encode() + packet.body)
            while data:  # a disk that is nearly full takes only a part of the data
                data = data[os.write(fd, data) :]
            if self._owner is not None:
                os.fchown(fd, *self._owner)
            if packet.at is not None:  # after the last write, which sets the mtime to now
                os.utime(fd, (_seconds(packet.at),) * 2)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _rename(self, name: str, directory: int) -> None:
        os.rename(_hidden(name), name, src_dir_fd=directory, dst_dir_fd=directory)

    def _directory_of(self, packet: Packet) -> int:
        if packet.priority is None:
            return self._fd
        if packet.priority not in self._priorities:
            self._priorities[packet.priority] = self._enter(packet.priority)
        return self._priorities[packet.priority]

    def _enter(self, priority: str) -> int:
        try:
            os.mkdir(priority, dir_fd=self._fd)  # 0777 minus the umask, as in uWSGI
        except FileExistsError:
            pass
        fd = os.open(priority, _ENTER | os.O_NOFOLLOW, dir_fd=self._fd)
        try:
            if self._owner is not None:
                self._give(priority, fd, self._owner)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _give(self, priority: str, fd: int, owner: tuple[int, int]) -> None:
        """Gives a priority directory that root has made to the owner of the spool. It must be empty, because another directory of
        root's, with files, may have been put in its place."""
        uid = os.fstat(fd).st_uid
        if uid == owner[0]:
            return
        if uid != 0 or os.listdir(fd):
            raise Refused(
                errno.EPERM,
                '%s/%s belongs to uid %d, and root stores for uid %d: run this as that user' % (self._path, priority, uid, owner[0]),
            )
        os.fchown(fd, *owner)

    # -- ids: .spoold/ids/<hash> is a link whose text is the ref of the task with an id. The link is a promise: whoever finds it
    # publishes that task

    def _find(self, once: str) -> str | None:
        """Returns the ref of the task that has the id; None if there is none."""
        link = _link(once)
        try:
            ref = os.readlink(link, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        if not _PROMISED.fullmatch(ref):
            raise OSError(errno.EINVAL, 'it is no id of spoold (it says %r); remove it' % ref, link)
        return ref

    def _promise(self) -> None:
        os.fsync(self._fd)
        for part in ('.spoold', _IDS):
            try:
                os.mkdir(part, 0o700, dir_fd=self._fd)
            except FileExistsError:
                pass
        promised = [(packet, name, self._take(packet, name)) for packet, name in self._files if packet.once is not None]
        self._sync(_IDS)
        for packet, name, ref in promised:
            try:
                self._rename(ref, self._fd) if '/' not in ref else self._rename_below(ref)
            except FileNotFoundError:
                pass  # the task was published before
            if name is not None and name != ref:
                os.unlink(_hidden(name), dir_fd=self._fd)
            packet.is_stored = True

    def _take(self, packet: Packet, name: str | None) -> str:
        """Takes the id for this task, unless another one was quicker. Returns the ref of the task that has the id now."""
        assert packet.once is not None
        while True:
            if name is not None:
                now = None if packet.at is None else (_seconds(packet.at),) * 2
                os.utime(_hidden(name), now, dir_fd=self._fd, follow_symlinks=False)  # so that the sweep leaves the file alone
                try:
                    os.symlink(name, _link(packet.once), dir_fd=self._fd)
                    return name
                except FileExistsError:
                    pass
            other = self._find(packet.once)
            if other is not None:
                return other
            if name is None:  # the sweep has removed the link at this very moment
                raise FileNotFoundError(errno.ENOENT, 'its id has just been forgotten; schedule it again')

    def _rename_below(self, ref: str) -> None:
        directory, _, name = ref.partition('/')
        os.rename('%s/%s' % (directory, _hidden(name)), ref, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def _sync(self, directory: str) -> None:
        fd = os.open(directory, _ENTER | os.O_NOFOLLOW, dir_fd=self._fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class _Syncer:
    """Syncs files side by side, because files that are synced together share a commit of the file system's journal."""

    def __init__(self) -> None:
        import queue
        import threading

        self.error: OSError | None = None
        self._thread = threading.Thread
        self._threads: list[threading.Thread] = []
        self._waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._room = threading.BoundedSemaphore(_MOST_OPEN)

    def take(self, fd: int) -> None:
        """Syncs and closes a file. Waits while too many are open."""
        self._room.acquire()
        if len(self._threads) < _MOST_THREADS:
            thread = self._thread(target=self._run, daemon=True)
            thread.start()
            self._threads.append(thread)
        self._waiting.put(fd)

    def end(self) -> None:
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        for fd in self._files():
            try:
                os.fdatasync(fd)
            except OSError as error:
                self.error = error
            finally:
                os.close(fd)
                self._room.release()

    def _files(self) -> Iterator[int]:
        while True:
            fd = self._waiting.get()
            if fd is None:
                return
            yield fd


def explained(error: OSError, path: str) -> OSError:
    """Returns the same error with the path of the spool, instead of a hidden file in it, and with a hint."""
    if error.errno is None:
        return error
    return type(error)(error.errno, '%s%s' % (error.strerror, _why(error.errno, path)), path)


def _why(number: int, path: str) -> str:
    if number in (errno.EACCES, errno.EPERM):
        return ' (%s)' % '; '.join(filter(None, (_rights(path), 'this process runs as %s' % _user(os.geteuid()))))
    if number in (errno.ENOSPC, getattr(errno, 'EDQUOT', -1)):
        return '; make room (df, df -i, quota) and try again'
    return ''


def _rights(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return ''
    return 'it belongs to %s:%s, and has the mode %04o' % (_user(found.st_uid), _group(found.st_gid), stat.S_IMODE(found.st_mode))


def _user(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def _group(gid: int) -> str:
    try:
        import grp

        return grp.getgrgid(gid).gr_name
    except (ImportError, KeyError):
        return str(gid)


def _hold(path: str) -> tuple[int, tuple[int, int] | None]:
    """Returns a descriptor of the spool, and the uid and gid to which root gives the files, because the daemon's user could not
    run a task of root's; None if the files stay with the user of this process."""
    if os.geteuid() != 0:
        return os.open(path, _ENTER), None
    fd, stranger, is_exchangeable = _walk(path)
    try:
        found = os.fstat(fd)
        if stranger is not None:
            if found.st_uid != stranger:
                raise _doubtful(path, 'it belongs to uid %d, and uid %d can exchange it' % (found.st_uid, stranger))
            return fd, (found.st_uid, found.st_gid)
        state = _look('.spoold', fd)
        if state is not None and stat.S_ISDIR(state.st_mode) and state.st_uid != 0:
            return fd, (state.st_uid, found.st_gid)
        if is_exchangeable:
            raise _doubtful(path, 'others can exchange it, because they may write in a directory above it')
        return fd, None
    except BaseException:
        os.close(fd)
        raise


def _walk(path: str) -> tuple[int, int | None, bool]:
    """Opens a directory for root. Root goes from / by descriptors, and through no links but its own, because the owner of a
    directory on the way may exchange its entries at any time. Returns a descriptor of the directory, the uid of the first other
    owner on the way, and whether others can exchange the directory for another one of root's."""
    rest = os.path.join(os.getcwd(), path).split('/')[::-1]
    fd, stranger, is_exchangeable, links = os.open('/', _ENTER), None, False, 0
    try:
        while rest:
            name = rest.pop()
            if name in ('', '.'):
                continue
            here, found = os.fstat(fd), os.stat(name, dir_fd=fd, follow_symlinks=False)
            may_move = here.st_mode & _OTHERS_WRITE != 0 and here.st_mode & stat.S_ISVTX == 0
            if stat.S_ISLNK(found.st_mode):
                is_roots = stranger is None and found.st_uid == 0 and not may_move
                if not is_roots or (here.st_mode & _OTHERS_WRITE and found.st_nlink > 1):
                    raise _doubtful(path, 'it is reached through a link of uid %d, or one that others can exchange' % found.st_uid)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                text = os.readlink(name, dir_fd=fd)
                rest += text.split('/')[::-1]
                name = '/' if text.startswith('/') else '.'
            below = os.open(name, _ENTER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
            is_exchangeable = is_exchangeable or may_move
            uid = os.fstat(fd).st_uid
            if stranger is None and uid != 0:
                stranger = uid
        return fd, stranger, is_exchangeable
    except BaseException:
        os.close(fd)
        raise


def _look(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _doubtful(path: str, fault: str) -> Refused:
    return Refused(errno.EPERM, 'root stores nothing in %s: %s; run this as the user of its daemon' % (path, fault))


def _seconds(at: str) -> int:
    return int(at.partition('.')[0])


def _hidden(name: str) -> str:
    return '.spoold-%s.tmp' % name


def _link(once: str) -> str:
    import hashlib

    return '%s/%s' % (_IDS, hashlib.sha256(once.encode()).hexdigest())


def _name() -> str:
    """Returns a name for a task file, as uWSGI makes it."""
    seconds, micros = divmod(time.time_ns() // 1000, 1000000)
    return 'uwsgi_spoolfile_on_%s_%d_%d_%d_%d_%d' % (
        os.uname().nodename,
        os.getpid(),
        next(_counter),
        int.from_bytes(os.urandom(4), 'little') >> 1,
        seconds,
        micros,
    )
