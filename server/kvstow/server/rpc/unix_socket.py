"""The Unix socket: who owns its path, and what a daemon that was killed left there.

Two daemons never share a socket. Whoever serves it holds a lock on a file beside it; the kernel
releases the lock with the process, so a daemon that was killed never stands in the way. The lock
file itself stays: a file that comes and goes can be locked twice.
"""

import errno
import fcntl
import grp
import os
import pwd
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

MAX_PATH_BYTES = 107
"""What fits into a socket address, the closing zero left out."""

LAST_ID = (1 << 32) - 2
"""The largest number of a user or a group; the next one stands for none."""

LOCK_S = 0.5
"""How long to try for the lock."""

_ELSEWHERE = "name another path with --socket"
"""What can be done about any path that cannot be served."""


class SocketError(Exception):
    """The socket cannot be served; one line that names the path and the reason."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """Who may connect to a socket.

    Args:
        mode: permissions of its file.
        owner, group: of its file, by name or number; None: this process's.
        shared_directory: accept a directory that others may write to.
    """

    mode: int = 0o600
    owner: str | None = None
    group: str | None = None
    shared_directory: bool = False

    def apply(self, target: Path | int, mode: int) -> None:
        """Give a file its owner and group, then its mode.

        Raises:
            SocketError: there is no such user or group.
            OSError: this process may not do that.
        """
        if self.owner is not None or self.group is not None:
            os.chown(target, _user(self.owner), _group(self.group))
        os.chmod(target, mode)

    def apply_to_directory(self, directory: Path) -> None:
        """Let those pass through a new directory who may connect. It stays this process's own, so nobody else may change
        what lies in it.

        Raises:
            SocketError: there is no such group.
            OSError: this process may not do that.
        """
        if self.group is not None:
            os.chown(directory, -1, _group(self.group))
        others = 0o001 if self.owner is not None else 0
        directory.chmod(0o700 | (self.mode & 0o066) >> 1 & 0o011 | others)


PRIVATE = Permissions()
"""Of the process's user alone."""


class SocketPath:
    """The path of a socket, owned by this process from `claim` to `release`.

    Args:
        path: where the socket shall be.
        permissions: who may connect.
    """

    def __init__(self, path: Path, permissions: Permissions = PRIVATE) -> None:
        self._path = path
        self._permissions = permissions
        self._lock: int | None = None

    @property
    def target(self) -> str:
        """The path as gRPC names it: as a URI, in which some characters stand for others."""
        return f"unix:{quote(str(self._path.absolute()))}"

    def check(self) -> None:
        """Refuse what cannot be served whatever lies there; touches nothing.

        Raises:
            SocketError: the path is too long, or its owner or group does not exist.
        """
        if len(os.fsencode(self._path.absolute())) > MAX_PATH_BYTES:
            raise SocketError(
                f"socket: the path is longer than {MAX_PATH_BYTES} bytes: {self._path}"
            )
        _user(self._permissions.owner)
        _group(self._permissions.group)

    def check_unserved(self) -> None:
        """Refuse a path that another process serves, before anything is taken for it. `claim` decides; touches nothing.

        Raises:
            SocketError: another process serves it.
        """
        try:
            lock = os.open(_lock_path(self._path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return  # nobody ever served it, or `claim` says what is wrong
        try:
            _hold(lock, fcntl.LOCK_SH, self._path)
        finally:
            os.close(lock)

    def claim(self) -> None:
        """Take the path: lock it, and remove the socket that a killed daemon left.

        Raises:
            SocketError: it cannot be served, another process serves it, something else lies there, others may put
                theirs in its place, or it cannot be made.
        """
        self.check()
        try:
            self._prepare_directory()
            self._lock = _lock(self._path)
            # Whoever may connect may see by its lock whether the socket is served.
            self._permissions.apply(self._lock, 0o600 | self._permissions.mode & 0o044)
            _remove_stale(self._path)
        except OSError as error:
            self.release()
            raise SocketError(
                f"cannot serve {self._path}: {error.strerror}; {_ELSEWHERE}"
            ) from error
        except SocketError:
            self.release()
            raise

    def open_up(self) -> None:
        """Let those connect to the socket who may; until now only its owner could.

        Raises:
            SocketError: this process may not change that.
        """
        try:
            self._permissions.apply(self._path, self._permissions.mode)
        except OSError as error:
            raise SocketError(
                f"cannot change owner, group or mode of {self._path}: {error.strerror}; "
                "see socket_owner, socket_group and socket_mode"
            ) from error

    def release(self) -> None:
        """Let another process have the path. May be repeated."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _prepare_directory(self) -> None:
        """Make it if there is none, open to those alone who may connect; refuse one in which others may replace files."""
        directory = self._path.parent
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700, parents=True)
            self._permissions.apply_to_directory(directory)
        found = directory.stat()
        theirs = found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022
        if theirs and not self._permissions.shared_directory:
            raise SocketError(
                f"others may write to {directory} (mode {stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}) and put"
                " a socket of theirs there; name another directory with --socket, take the right away"
                " (chmod go-w), or accept it with --socket-shared-directory"
            )


def _user(name: str | None) -> int:
    """Number of a user; -1, which changes nothing, for None."""
    if name is None or _is_number(name):
        return int(name or -1)
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        raise SocketError(f"socket_owner: there is no user {name}") from None


def _group(name: str | None) -> int:
    if name is None or _is_number(name):
        return int(name or -1)
    try:
        return grp.getgrnam(name).gr_gid
    except (KeyError, ValueError):
        raise SocketError(f"socket_group: there is no group {name}") from None


def _is_number(name: str) -> bool:
    return re.fullmatch(r"[0-9]{1,10}", name) is not None and int(name) <= LAST_ID


@contextmanager
def private_files() -> Iterator[None]:
    """Files made meanwhile are the owner's alone.

    A socket has its mode from the moment it is bound; changed later, it would be open to others
    for an instant. The mask is the whole process's: use this before other threads make files.
    """
    previous = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(previous)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _lock(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(_lock_path(path), flags, 0o600)
    try:
        _hold(lock, fcntl.LOCK_EX, path)
    except SocketError:
        os.close(lock)
        raise
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _hold(lock: int, how: int, path: Path) -> None:
    """Lock the file, unless another process holds it: its number is in it."""
    if not _is_ours(lock, how):
        holder = os.read(lock, 32).decode(errors="replace").strip()
        raise SocketError(
            f"{path} is served by process {holder or 'unknown'}; end that, or {_ELSEWHERE}"
        )


def _is_ours(lock: int, how: int) -> bool:
    """Try for a moment: a client that asks whether anybody holds the lock shares it for an instant."""
    until = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(LOCK_S / 20)
        else:
            return True


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"{path} exists and is not a socket; remove it, or {_ELSEWHERE}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        outcome = probe.connect_ex(str(path))
    if outcome != errno.ECONNREFUSED:
        raise SocketError(
            f"{path} is served by a process that does not hold its lock; end that, or {_ELSEWHERE}"
        )
    path.unlink()
