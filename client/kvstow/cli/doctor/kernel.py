"""What the kernel's files say: limits, control groups, mounts, and where a pool lies.

Formats: proc(5), mount_namespaces(7) for `mountinfo`, the kernel's admin guide for control groups of both
versions, numa(7) for `numa_maps`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from .machine import Machine

UNLIMITED = 1 << 62
"""From here on a limit is none; control groups of version 1 have no other word for it."""

_PAGES = (4 << 10, 2 << 20, 1 << 30)
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+\s*(.*)")
_HUGE = re.compile(r"(?:ShmemPmdMapped|Shared_Hugetlb|Private_Hugetlb):\s+(\d+) kB")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The memory limit of a control group, or of the whole machine.

    Args:
        place: the file that says it.
        limit_bytes: the limit.
        used_bytes: what is in use there and cannot be dropped.
    """

    place: str
    limit_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class PoolMapping:
    """Where a process has the host pool mapped.

    Args:
        address: of its first byte, in hexadecimal digits.
        path: of the file behind it.
        huge_bytes: how much of it lies in huge pages.
    """

    address: str
    path: str
    huge_bytes: int


@dataclass(frozen=True, slots=True)
class _Hierarchy:
    """Control groups of one version: where they are mounted, and the files of limit, usage and droppable memory."""

    place: PurePosixPath
    file_system: str
    files: tuple[str, str, str]


_V1 = _Hierarchy(
    PurePosixPath("/sys/fs/cgroup/memory"),
    "cgroup",
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
_V2 = _Hierarchy(
    PurePosixPath("/sys/fs/cgroup"), "cgroup2", ("memory.max", "memory.current", "inactive_file")
)


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mount: its device, the directory in it that is mounted, and the type of its file system."""

    device: str
    root: PurePosixPath
    file_system: str


def memory_bytes(machine: Machine, field: str) -> int | None:
    """A field of `/proc/meminfo`, in bytes; a count if it has no unit."""
    text = machine.text("/proc/meminfo") or ""
    found = re.search(rf"^{re.escape(field)}:\s+(\d+)( kB)?$", text, re.MULTILINE)
    return None if found is None else int(found[1]) * (1024 if found[2] else 1)


def process_limit(machine: Machine, process: str, name: str) -> int | None:
    """A soft limit of a process, by its name in `/proc/PID/limits`; UNLIMITED for none."""
    text = machine.text(f"/proc/{process}/limits") or ""
    found = re.search(rf"^{name}\s+(\S+)", text, re.MULTILINE)
    if found is None:
        return None
    return UNLIMITED if found[1] == "unlimited" else int(found[1])


def group_limits(machine: Machine, process: str) -> Sequence[MemoryLimit] | None:
    """The memory limits of the control groups that a process is in, and of their parents.

    None if they cannot be seen: a container sees its own group and those below, so those of a process in another container
    lie elsewhere (cgroup_namespaces(7)), and what is mounted here must not be taken for them.
    """
    memberships = dict(_memberships(machine, process))
    if not memberships:
        return ()
    hierarchy = (
        _V1 if _V1 in memberships else _V2
    )  # where both are mounted, version 1 has the memory
    mounted = _mount(machine, "self", hierarchy.place)
    if mounted is None or mounted.file_system != hierarchy.file_system:
        return None
    path = PurePosixPath(memberships[hierarchy])
    if not path.is_relative_to(mounted.root):
        return None
    inside = path.relative_to(mounted.root)
    if ".." in inside.parts:
        return None
    group = hierarchy.place / inside
    places = [each for each in (group, *group.parents) if each.is_relative_to(hierarchy.place)]
    found = (_group_limit(machine, each, *hierarchy.files) for each in places)
    return [limit for limit in found if limit is not None]


def _memberships(machine: Machine, process: str) -> Iterator[tuple[_Hierarchy, str]]:
    """The hierarchies that may limit memory, each with the path of the process's group in it."""
    for line in (machine.text(f"/proc/{process}/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield _V2, path
        elif "memory" in controllers.split(","):
            yield _V1, path


def _group_limit(
    machine: Machine, place: PurePosixPath, limit_name: str, usage_name: str, cache_name: str
) -> MemoryLimit | None:
    limit = machine.number(f"{place}/{limit_name}")
    usage = machine.number(f"{place}/{usage_name}")
    if limit is None or usage is None or limit >= UNLIMITED:
        return None
    stat = machine.text(f"{place}/memory.stat") or ""
    droppable = re.search(rf"^{cache_name} (\d+)$", stat, re.MULTILINE)
    return MemoryLimit(
        f"{place}/{limit_name}", limit, usage - (int(droppable[1]) if droppable else 0)
    )


def shared_memory_mount(machine: Machine, process: str) -> str | None:
    """What a process has mounted on /dev/shm: device, and the directory in it."""
    found = _mount(machine, process, PurePosixPath("/dev/shm"))
    return None if found is None else f"{found.device} {found.root}"


def _mount(machine: Machine, process: str, place: PurePosixPath) -> _Mount | None:
    found = None
    for line in (machine.text(f"/proc/{process}/mountinfo") or "").splitlines():
        fields, _, rest = line.partition(" - ")
        _, _, device, root, where, *_ = fields.split()
        if where == str(place):
            # A later mount covers an earlier one.
            found = _Mount(device, PurePosixPath(root), rest.partition(" ")[0])
    return found


def pool_mapping(machine: Machine, process: str, pool_bytes: int) -> PoolMapping | None:
    """Where a process has its host pool; None if that cannot be seen.

    The file behind the pool has no name any more, and the pool's size in whole pages.
    """
    sizes = {-(-pool_bytes // page) * page for page in _PAGES}
    found: list[PoolMapping] = []
    inside = False
    for line in (machine.text(f"/proc/{process}/smaps") or "").splitlines():
        if mapping := _MAPPING.fullmatch(line):
            start, end, mode, path = mapping.groups()
            size = int(end, 16) - int(start, 16)
            inside = mode == "rw-s" and path.endswith("(deleted)") and size in sizes
            if inside:
                found.append(PoolMapping(start, path, 0))
        elif inside and (huge := _HUGE.fullmatch(line)):
            last = found[-1]
            found[-1] = PoolMapping(last.address, last.path, last.huge_bytes + int(huge[1]) * 1024)
    return found[0] if len(found) == 1 else None


def bytes_by_node(machine: Machine, process: str, mapping: PoolMapping) -> Mapping[int, int]:
    """How much of a mapping lies on which NUMA node; empty if that cannot be seen."""
    for line in (machine.text(f"/proc/{process}/numa_maps") or "").splitlines():
        address, _, rest = line.partition(" ")
        if address == mapping.address:
            page = re.search(r"kernelpagesize_kB=(\d+)", rest)
            page_bytes = int(page[1]) * 1024 if page else _PAGES[0]
            nodes = re.findall(r"\bN(\d+)=(\d+)", rest)
            return {int(node): int(count) * page_bytes for node, count in nodes}
    return {}


def numbers(ranges: str) -> list[int]:
    """The numbers in a list of ranges, such as `0-1,4`."""
    found: list[int] = []
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
