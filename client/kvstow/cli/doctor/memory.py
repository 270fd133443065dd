"""Whether the machine gives the host pool its memory, and how good that memory is."""

from collections.abc import Iterator

from kvstow.cli.words import size

from . import kernel
from .devices import gpus
from .findings import Finding, failure, fine, warning
from .machine import Machine
from .scene import Scene

ROOM_BYTES = 512 << 20
"""What the daemon needs besides its pool: the interpreter, gRPC, and the books of some million blocks."""

SMALL_SHARED_MEMORY_BYTES = 64 << 20
"""What container engines give /dev/shm unless told otherwise."""

_MACHINE = "MemTotal in /proc/meminfo"
_THP = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
_NODES = "/sys/devices/system/node/has_memory"


def check_memory(scene: Scene) -> Finding | None:
    """The machine's memory and the limits of control groups, against the pool."""
    process, pool = scene.process, scene.pool_bytes
    if process is None or pool is None:
        return None
    groups = kernel.group_limits(scene.machine, process)
    limits = [*_whole_machine(scene.machine), *(groups or ())]
    if not limits:
        return warning("memory", "no limit can be read", "mount /proc and /sys")
    there = scene.answer is not None  # what is in use is the pool's own then
    rooms = [(limit, 0 if there else limit.used_bytes) for limit in limits]
    tightest, used_bytes = min(rooms, key=lambda room: room[0].limit_bytes - room[1])
    source, limit_bytes = tightest.place, tightest.limit_bytes
    room = limit_bytes - used_bytes - pool
    used = f", of which {size(used_bytes)} are in use" if used_bytes else ""
    found = f"a pool of {size(pool)} under {size(limit_bytes)}{used} ({source})"
    if source == _MACHINE:
        advice = _in_a_machine(limit_bytes, used_bytes)
    else:
        least = size(pool + used_bytes + ROOM_BYTES)
        advice = f"raise the limit to {least} or more, or lower pool_size"
    if room < 0:
        return failure("memory", f"{found}: it does not fit", advice)
    if room < ROOM_BYTES:
        return warning("memory", f"{found}: {size(room)} are left for everything else", advice)
    if groups is None:
        found = f"{found}; limits of the daemon's control group cannot be seen from here"
        return warning("memory", found, "run this once more where the daemon runs")
    return fine("memory", found)


def _in_a_machine(total_bytes: int, used_bytes: int) -> str:
    """What to do where no limit but the machine's own memory is in the way."""
    available, others = total_bytes - used_bytes, "end what else takes memory"
    if available <= ROOM_BYTES:
        return f"{others}: {size(available)} are left for a pool and {size(ROOM_BYTES)} besides it"
    advice = f"lower pool_size to {size(available - ROOM_BYTES)} or less"
    return f"{advice}, or {others}" if used_bytes else advice


def _whole_machine(machine: Machine) -> Iterator[kernel.MemoryLimit]:
    total = kernel.memory_bytes(machine, "MemTotal")
    if total is not None:
        available = kernel.memory_bytes(machine, "MemAvailable")
        used = 0 if available is None else total - available
        yield kernel.MemoryLimit(_MACHINE, total, used)


def check_shared_memory(scene: Scene) -> Finding:
    """The size of /dev/shm on this side, where engines on the CPU keep their KV cache."""
    space = scene.machine.space("/dev/shm")
    if space is None:
        advice = "mount a tmpfs there"
        return failure("shared-memory", "there is no /dev/shm for engines on the CPU", advice)
    total, free = space
    found = f"/dev/shm has {size(total)}, of which {size(free)} are free"
    advice = (
        "engines on the CPU keep their KV cache there: enlarge it (docker: --shm-size; Kubernetes: an"
        " emptyDir with medium Memory; else mount -o remount,size=...)"
    )
    if 0 < total <= SMALL_SHARED_MEMORY_BYTES:
        return warning("shared-memory", found, advice)
    if total and free < total // 50:
        return warning("shared-memory", f"{found}: it is full", advice)
    return fine("shared-memory", found)


def check_pool(scene: Scene) -> Finding | None:
    """Where the pool lies, and how much of it in huge pages."""
    process, pool = scene.process, scene.pool_bytes
    if scene.answer is None or process is None or pool is None:
        return None
    if scene.pool is None:
        advice = "run this as the daemon's user, or as root, to see its huge pages and NUMA nodes"
        return warning("pool", "the pool of the daemon's process cannot be seen", advice)
    share = 100 * scene.pool.huge_bytes // pool
    return fine("pool", f"{size(pool)} in {scene.pool.path}, {share} % of it in huge pages")


def check_huge_pages(scene: Scene) -> Finding | None:
    """Whether the pool may lie in huge pages: copies then miss the TLB less often."""
    chosen = scene.machine.text(_THP)
    if chosen is None:
        return None
    word = chosen.partition("[")[2].partition("]")[0]
    total = kernel.memory_bytes(scene.machine, "HugePages_Total") or 0
    free = kernel.memory_bytes(scene.machine, "HugePages_Free") or 0
    found = f"shared memory: {word}; hugetlb: {free} of {total} pages free"
    if word in ("always", "within_size", "advise", "force"):
        return fine("huge-pages", found)
    if scene.pool is not None and scene.pool_bytes and scene.pool.huge_bytes >= scene.pool_bytes:
        return fine("huge-pages", f"{found}; the pool lies in some")
    advice = (
        f"write `advise` to {_THP} and start the daemon again, or use pool_path on a hugetlbfs"
    )
    return warning("huge-pages", found, advice)


def check_memlock(scene: Scene) -> Finding | None:
    """Whether the daemon may page-lock its pool, where it copies from and to GPUs."""
    process, pool = scene.process, scene.pool_bytes
    if process is None or pool is None:
        return None
    limit = kernel.process_limit(scene.machine, process, "Max locked memory")
    if limit is None:
        return None
    found = "unlimited" if limit >= kernel.UNLIMITED else f"at most {size(limit)}"
    if limit >= pool:
        return fine("memlock", f"{found} may be page-locked")
    found = f"{found} may be page-locked, the pool has {size(pool)}"
    if not (scene.answer.info.gpus if scene.answer else any(gpus(scene.machine))):
        return fine("memlock", f"{found}; without a GPU nothing is")
    if scene.answer is not None and scene.answer.info.pinned:
        return fine("memlock", f"{found}, and it is page-locked all the same")
    advice = "set LimitMEMLOCK=infinity (systemd), --ulimit memlock=-1 (docker) for the daemon"
    return warning("memlock", found, advice)


def check_numa(scene: Scene) -> Finding | None:
    """On which NUMA nodes the pool lies."""
    nodes = kernel.numbers(scene.machine.text(_NODES) or "")
    if not nodes:
        return None
    if len(nodes) == 1:
        return fine("numa", "one node")
    process, mapping, machine = scene.process, scene.pool, scene.machine
    if process is None or mapping is None:
        return fine("numa", f"{len(nodes)} nodes; where the pool lies cannot be seen")
    shares = kernel.bytes_by_node(machine, process, mapping)
    if not shares:
        return fine("numa", f"{len(nodes)} nodes; where the pool lies cannot be seen")
    where = ", ".join(f"{size(share)} on node {node}" for node, share in sorted(shares.items()))
    found = f"{len(nodes)} nodes; of the pool {where}"
    if max(shares.values()) <= 0.9 * sum(shares.values()):
        return fine("numa", found)
    advice = (
        "copies from and to the other nodes are slower: if engines run there, start the daemon with"
        " `numactl --interleave=all`, or one daemon for each node with `numactl --cpunodebind --membind`"
    )
    return warning("numa", found, advice)
