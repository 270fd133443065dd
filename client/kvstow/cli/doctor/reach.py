"""Whether the daemon can be reached, and whether it serves."""

import stat

from kvstow.cli.connection import found_elsewhere
from kvstow.cli.words import duration, size
from kvstow.v1 import cache_pb2

from .findings import Finding, failure, fine, warning
from .scene import Reach, Scene, SocketFile, this_user


def check_socket(scene: Scene) -> Finding:
    """Whether the socket is there, whose it is, and whether this user may connect."""
    found = scene.socket
    match found.reach:
        case Reach.TCP:
            return fine("socket", f"none: {scene.target} is a host and port")
        case Reach.OPEN:
            return _open_socket(found)
        case Reach.HIDDEN | Reach.FORBIDDEN:
            return failure("socket", f"{_whose(found)}, and you may not pass", _who_may(found))
        case Reach.OTHER:
            return failure("socket", f"{found.place} is no socket", _other_daemon(scene.target))
        case Reach.ABSENT | Reach.DEAD if scene.wanted_bytes is not None:
            return warning(
                "socket", f"no daemon listens on {found.place} yet", _other_daemon(scene.target)
            )
        case Reach.ABSENT:
            return failure("socket", f"there is no {found.place}", _other_daemon(scene.target))
        case Reach.DEAD:
            return failure(
                "socket", f"nobody listens on {found.place}", _other_daemon(scene.target)
            )


def _other_daemon(target: str) -> str:
    named = "start kvstowd, or name another daemon with --target or KVSTOW_TARGET"
    return f"{named}{found_elsewhere(target)}"


def _who_may(found: SocketFile) -> str:
    group = f", or as a user of the group {found.group}" if found.mode & stat.S_IRWXG else ""
    return f"run this, and engines, as {found.owner}{group}"


def _open_socket(found: SocketFile) -> Finding:
    peer = found.peer
    if peer is None:
        listener = "somebody listens and does not accept"
    else:
        listener = f"process {peer.pid} listens" if peer.pid else "a process out of sight listens"
    said = f"{_whose(found)}; {listener}"
    if not found.open_directory:
        return fine("socket", said)
    advice = f"take the write permission for others from {found.place.parent}"
    return warning("socket", f"{said}; anybody may put a socket of theirs in its place", advice)


def _whose(found: SocketFile) -> str:
    whose = f"{found.owner}:{found.group}"
    return f"{found.place} belongs to {whose}, mode {found.mode:04o}; you are {this_user()}"


def check_daemon(scene: Scene) -> Finding | None:
    """Whether the daemon answers and takes work."""
    if scene.answer is None:
        if scene.socket.reach not in (Reach.OPEN, Reach.TCP):
            return None  # the socket says why
        return failure("daemon", *scene.trouble)
    info = scene.answer.info
    pool = f"a pool of {size(info.limits.pool_bytes)}"
    up = f"up for {duration(info.uptime_s)}"
    match info.state:
        case cache_pb2.SERVER_STATE_READY:
            return fine("daemon", f"ready with {pool}, {up}, boot id {info.boot_id}")
        case cache_pb2.SERVER_STATE_STARTING:
            advice = (
                "wait, for instance with `kvstow status --wait 600`; its log says how far it is"
            )
            return failure("daemon", f"not ready: it still prepares {pool}, {up}", advice)
        case _:
            advice = "start the next daemon when this one has ended"
            return failure("daemon", f"not ready: it is shutting down, {up}", advice)


def check_transfers(scene: Scene) -> Finding | None:
    """Whether copies end in their time."""
    if scene.answer is None or scene.answer.overdue is None:
        return None
    overdue = scene.answer.overdue
    if not overdue.total_count:
        return fine("transfers", "none is past its deadline")
    found = f"{overdue.total_count} are past their deadline"
    if overdue.transfers:  # those of others are counted and not shown
        found = f"{found}, the oldest has run for {duration(overdue.transfers[0].age_s)}"
    return failure(
        "transfers",
        found,
        "`kvstow transfers --stuck` says whose they are and what to do",
    )
