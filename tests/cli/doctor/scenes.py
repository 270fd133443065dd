"""Machines and daemons that tests describe: trees of files as the kernel would show them, and answers."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvstow.cli.doctor.machine import Machine
from kvstow.cli.doctor.scene import Answer, Peer, Reach, Scene, SocketFile, pool_of
from kvstow.v1 import admin_pb2, cache_pb2

GIB = 1 << 30
DAEMON = 77
"""Process id of the daemon."""

MEMORY = "MemTotal:       67108864 kB\nHugePages_Total:       8\nHugePages_Free:        3\n"
SHARED = "31 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24683652k\n"
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max open files            {files}              {files}              files     \n"
    "Max locked memory         {locked}             {locked}             bytes     \n"
)


def machine(
    root: Path,
    files: Mapping[str, str],
    links: Mapping[str, str] | None = None,
    shared_memory: tuple[int, int] | None = None,
) -> Machine:
    """A machine with some files; /dev/shm has a size and free bytes, or is missing."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, target in (links or {}).items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def statvfs(path: Path) -> os.statvfs_result:
        assert path == root / "dev/shm"
        if shared_memory is None:
            raise FileNotFoundError(path)
        size, free = shared_memory
        return os.statvfs_result((1, 1, size, free, free, 0, 0, 0, 0, 255))

    return Machine(root, statvfs)


def scene(
    found: Machine,
    *,
    pid: int | None = DAEMON,
    answers: bool = True,
    pool_bytes: int = 8 * GIB,
    wanted_bytes: int | None = None,
    **info: Any,
) -> Scene:
    """A daemon on a machine.

    Args:
        pid: of its process as this side sees it; None if nobody listens.
        answers: whether it does.
        pool_bytes: size of its pool.
        info: fields of its answer, instead of those of a daemon that is well.
    """
    well: dict[str, Any] = {
        "state": cache_pb2.SERVER_STATE_READY,
        "version": "1",
        "boot_id": "b",
        "uptime_s": 60,
    }
    said = cache_pb2.GetServerInfoResponse(
        limits=cache_pb2.Limits(pool_bytes=pool_bytes), **(well | info)
    )
    place = Path("/run/kvstow.sock")
    if pid is None:
        socket = SocketFile(Reach.ABSENT, place)
    else:
        socket = SocketFile(Reach.OPEN, place, "owner", "group", 0o660, Peer(pid, "owner"))
    answer = Answer(said, admin_pb2.ListTransfersResponse(), 0.0, 0.0) if answers else None
    all_but_pool = Scene(
        found, "unix:/run/kvstow.sock", socket, answer, ("it is away", "wait"), wanted_bytes
    )
    return replace(all_but_pool, pool=pool_of(all_but_pool))
