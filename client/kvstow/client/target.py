"""Where the daemon is: the two forms of a target, and whether anybody listens there."""

import fcntl
import os
import re
import socket
from pathlib import Path
from urllib.parse import quote

_UNIX = re.compile(r"unix:(?://(?=/))?(.+)")
_TCP = re.compile(r"\[?([^\[\]/]+?)\]?:(\d{1,5})")
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}")
_LAST_PORT = 65535
_ANSWER_S = 1.0


def default_target() -> str:
    """Where a daemon of this user listens unless it was told otherwise."""
    runtime = os.environ.get("XDG_RUNTIME_DIR") or "/run"
    return f"unix:{Path(runtime, 'kvstow', 'kvstow.sock')}"


def check_target(target: str) -> None:
    """Refuse what names neither a socket nor a host and port.

    Raises:
        ValueError: the target has neither form, or there is no such port.
    """
    unix, tcp = _UNIX.fullmatch(target), _TCP.fullmatch(target)
    if not (unix or tcp):
        raise ValueError(f"target {target!r} is neither unix:/path/of/a/socket nor host:port")
    if tcp and not unix and int(tcp[2]) > _LAST_PORT:  # gRPC would take another one
        raise ValueError(
            f"target {target!r} names port {tcp[2]}, and the last one is {_LAST_PORT}"
        )


def channel_target(target: str) -> str:
    """The target as gRPC names it: as a URI, in which some characters of a path stand for others."""
    unix = _UNIX.fullmatch(target)
    return f"unix:{quote(unix[1])}" if unix else target


def socket_path(target: str) -> Path | None:
    """The path of the target's socket; None if it is a host and port."""
    unix = _UNIX.fullmatch(target)
    return Path(unix[1]) if unix else None


def is_local(target: str) -> bool:
    """Whether what is sent to the target never leaves this machine."""
    tcp = _TCP.fullmatch(target)
    return tcp is None or tcp[1] in ("localhost", "::1") or _LOOPBACK.fullmatch(tcp[1]) is not None


def is_listening(target: str) -> bool:
    """Whether a process has the target open.

    False is certain: the process that listened there has ended. True may mean that it is stopped
    or too busy to answer.
    """
    unix = _UNIX.fullmatch(target)
    try:
        if unix:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_ANSWER_S)
                probe.connect(unix[1])
        elif tcp := _TCP.fullmatch(target):
            socket.create_connection((tcp[1], int(tcp[2])), _ANSWER_S).close()
    except FileNotFoundError:
        # Whoever serves a socket holds a lock beside it, also when somebody has deleted the socket.
        return unix is not None and _is_locked(f"{unix[1]}.lock")
    except ConnectionRefusedError:
        return False
    except OSError:
        return True  # a full backlog, for instance: someone is there and does not accept
    return True


def _is_locked(path: str) -> bool:
    try:
        with open(path, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
