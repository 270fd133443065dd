"""What the checks look at: the machine, the socket, who listens there, and what the daemon says of itself."""

import grp
import os
import pwd
import socket
import stat
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from kvstow.client import Client, KvstowError, Refused, TlsFailed
from kvstow.client.target import socket_path
from kvstow.v1 import admin_pb2, cache_pb2

from .kernel import PoolMapping, pool_mapping
from .machine import Machine

_ANSWER_S = 1.0
_CREDENTIALS = struct.Struct("3i")


class Reach(Enum):
    """How far one gets to the socket."""

    TCP = "there is none: the target is a host and port"
    ABSENT = "there is no such file"
    HIDDEN = "a directory above it may not be entered"
    OTHER = "the file is no socket"
    FORBIDDEN = "this user may not connect"
    DEAD = "nobody listens"
    OPEN = "somebody listens"


@dataclass(frozen=True, slots=True)
class Peer:
    """Who listens on the socket.

    Args:
        pid: of the process, in this PID namespace; 0 if it is in another that this one does not see.
        user: whom it runs as.
    """

    pid: int
    user: str


@dataclass(frozen=True, slots=True)
class SocketFile:
    """The daemon's socket.

    Args:
        reach: how far one gets.
        place: the file or directory that decides that.
        owner, group, mode: of that place.
        peer: who listens, if anybody does.
        open_directory: whether anybody may put another file in the socket's place.
    """

    reach: Reach
    place: Path = Path()
    owner: str = ""
    group: str = ""
    mode: int = 0
    peer: Peer | None = None
    open_directory: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What the daemon says.

    Args:
        info: of itself.
        overdue: its transfers past their deadline; None if this user may not know.
        clock_lead_s: how far its wall clock is ahead of ours.
        clock_error_s: by how much that may be wrong.
    """

    info: cache_pb2.GetServerInfoResponse
    overdue: admin_pb2.ListTransfersResponse | None
    clock_lead_s: float
    clock_error_s: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that checks look at.

    Args:
        machine: this side's.
        target: where the daemon is.
        socket: its socket.
        answer: what the daemon says; None if it does not.
        trouble: why it does not, and what to do.
        wanted_bytes: the size of the pool that a daemon shall have which is not there yet.
        pool: where the daemon's process has its pool; None if that cannot be seen.
    """

    machine: Machine
    target: str
    socket: SocketFile
    answer: Answer | None = None
    trouble: tuple[str, str] = ("", "")
    wanted_bytes: int | None = None
    pool: PoolMapping | None = None

    @property
    def process(self) -> str | None:
        """Whose limits count, as a name in /proc: the daemon's, or ours if a daemon shall be started here.

        None if there is a daemon that cannot be seen from here.
        """
        if self.socket.peer is not None and self.socket.peer.pid:
            return str(self.socket.peer.pid)
        return None if self.socket.peer or self.answer else "self"

    @property
    def pool_bytes(self) -> int | None:
        """Size of the host pool that there is, or shall be."""
        if self.answer is not None:
            return self.answer.info.limits.pool_bytes
        return self.wanted_bytes


def this_user() -> str:
    """Whom this process runs as."""
    return _user(os.geteuid())


def look(target: str, client: Client, wanted_bytes: int | None) -> Scene:
    """Gather everything. Takes a few seconds at most, if the daemon does not answer."""
    found = _socket_file(target)
    answer, trouble = None, ("", "")
    if found.reach in (Reach.OPEN, Reach.TCP):
        try:
            answer = _ask(client)
        except Refused as refused:
            trouble = f"it refuses: {refused}", refused.next_step or "see docs/security.md"
        except TlsFailed as error:
            trouble = error.found, error.next_step
        except KvstowError as error:
            advice = "see the daemon's log, and whether its process is stopped or short of CPU"
            trouble = f"it does not answer: {error}", advice
    scene = Scene(Machine(), target, found, answer, trouble, wanted_bytes)
    return replace(scene, pool=pool_of(scene))


def pool_of(scene: Scene) -> PoolMapping | None:
    """Where the daemon's process has its pool. Looks at its page tables: 15 ms for each GiB without huge pages."""
    if scene.answer is None or scene.process is None or scene.pool_bytes is None:
        return None
    return pool_mapping(scene.machine, scene.process, scene.pool_bytes)


def _ask(client: Client) -> Answer:
    client.server_info()  # the connection is made, so that the next call takes no longer than it must
    before = time.time()
    info = client.server_info()
    after = time.time()
    return Answer(
        info=info,
        overdue=_overdue(client),
        clock_lead_s=info.unix_time_s - (before + after) / 2,
        clock_error_s=(after - before) / 2,
    )


def _overdue(client: Client) -> admin_pb2.ListTransfersResponse | None:
    try:
        return client.administration.transfers(limit=1, overdue_only=True)
    except Refused:
        return None


def _socket_file(target: str) -> SocketFile:
    path = socket_path(target)
    if path is None:
        return SocketFile(Reach.TCP)
    try:
        found = path.stat()
    except PermissionError:
        return _barrier(path)
    except OSError:
        return SocketFile(Reach.ABSENT, path)
    reach, peer = Reach.OTHER, None
    if stat.S_ISSOCK(found.st_mode):
        reach, peer = _connect(path)
    mode = stat.S_IMODE(found.st_mode)
    directory = stat.S_IMODE(path.parent.stat().st_mode)
    anybodys = bool(directory & stat.S_IWOTH) and not directory & stat.S_ISVTX
    owner, group = _user(found.st_uid), _group(found.st_gid)
    return SocketFile(reach, path, owner, group, mode, peer, anybodys)


def _barrier(path: Path) -> SocketFile:
    """The innermost directory that can be looked at: it may not be entered."""
    for place in path.parents:
        with suppress(PermissionError):
            found = place.stat()
            mode = stat.S_IMODE(found.st_mode)
            owner, group = _user(found.st_uid), _group(found.st_gid)
            return SocketFile(Reach.HIDDEN, place, owner, group, mode)
    return SocketFile(Reach.HIDDEN, path.parent)


def _connect(path: Path) -> tuple[Reach, Peer | None]:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_ANSWER_S)
        try:
            probe.connect(str(path))
        except PermissionError:
            return Reach.FORBIDDEN, None
        except ConnectionRefusedError:
            return Reach.DEAD, None
        except OSError:
            return (
                Reach.OPEN,
                None,
            )  # a full backlog, for instance: somebody is there and does not accept
        given = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(given)
    return Reach.OPEN, Peer(pid, _user(uid))


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
