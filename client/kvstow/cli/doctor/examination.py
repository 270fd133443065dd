"""All checks, in the order in which they are best read."""

from collections.abc import Callable, Sequence

from . import devices, isolation, memory, reach, software
from .findings import Finding
from .scene import Scene

CHECKS: Sequence[Callable[[Scene], Finding | None]] = (
    reach.check_socket,
    reach.check_daemon,
    reach.check_transfers,
    isolation.check_process,
    isolation.check_pid_namespace,
    isolation.check_ipc_namespace,
    isolation.check_shared_mount,
    memory.check_shared_memory,
    memory.check_memory,
    memory.check_pool,
    memory.check_huge_pages,
    memory.check_numa,
    memory.check_memlock,
    devices.check_gpus,
    software.check_open_files,
    software.check_versions,
    software.check_libraries,
    software.check_clock,
)


def examine(scene: Scene) -> list[Finding]:
    """What all checks that apply have found."""
    return [finding for check in CHECKS if (finding := check(scene)) is not None]
