"""How much memory this process may still take, and how much there is at all; and what says so.

Decided here: which bounds there are and how to read them. A bound that cannot be read is not a bound.
The roots of the kernel's file systems are arguments, so that other machines can be described in tests.
"""

import mmap
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound for new memory.

    Args:
        free_bytes: what may still be taken.
        source: what sets the bound, in the words of its documentation.
        remedy: what a person may do about it.
        total_bytes: what could be taken if nobody else had any of it.
        whole: what says so.
    """

    free_bytes: int
    source: str
    remedy: str
    total_bytes: int
    whole: str


def file_bounds(directory: Path | None, proc: Path = PROC, sys: Path = SYS) -> Iterator[Bound]:
    """Yield what bounds a file that is kept in memory and mapped.

    Args:
        directory: where the file will be; None stands for an anonymous one.

    Raises:
        OSError: the directory cannot be examined.
    """
    yield from _process_bounds(proc)
    page_bytes = mmap.PAGESIZE
    if directory is not None:
        mount = os.statvfs(directory)
        page_bytes = mount.f_bsize
        if mount.f_blocks:  # a mount without a size of its own reports none
            free, total = mount.f_bavail * mount.f_frsize, mount.f_blocks * mount.f_frsize
            remedy = "remount it with a larger size"
            yield Bound(free, f"free space in {directory}", remedy, total, f"size of {directory}")
    huge_pages = sys / f"kernel/mm/hugepages/hugepages-{page_bytes // 1024}kB"
    if huge_pages.exists():
        # Reserved at an earlier time: they count neither as available nor against a group's limit.
        yield _reserved(huge_pages / "free_hugepages", huge_pages / "nr_hugepages", page_bytes)
    else:
        yield available(proc)
        yield from _group_bounds(proc, sys)


def _reserved(left: Path, reserved: Path, page_bytes: int) -> Bound:
    """Huge pages of one size."""
    free, total = (int(path.read_text()) * page_bytes for path in (left, reserved))
    return Bound(
        free,
        str(left),
        f"reserve more huge pages in {reserved.name} beside it",
        total,
        str(reserved),
    )


def _process_bounds(proc: Path) -> Iterator[Bound]:
    """The limits of `ulimit`."""
    file_bytes, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if file_bytes != resource.RLIM_INFINITY:
        remedy = "raise it (ulimit -f)"
        yield Bound(file_bytes, "RLIMIT_FSIZE", remedy, file_bytes, "RLIMIT_FSIZE")
    address_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_bytes != resource.RLIM_INFINITY:
        used = int((proc / "self/statm").read_text().split()[0]) * mmap.PAGESIZE
        free, remedy = address_bytes - used, "raise it (ulimit -v)"
        yield Bound(free, "RLIMIT_AS", remedy, address_bytes, "RLIMIT_AS")


def available(proc: Path = PROC) -> Bound:
    """What the machine can give without swapping."""
    lines = (proc / "meminfo").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return Bound(
        sizes["MemAvailable"],
        "MemAvailable in /proc/meminfo",
        "end other processes",
        sizes["MemTotal"],
        "MemTotal in /proc/meminfo",
    )


def _group_bounds(proc: Path, sys: Path) -> Iterator[Bound]:
    """The limits of the control groups that this process is in, of either version, and of their parents."""
    membership = proc / "self/cgroup"
    for line in membership.read_text().splitlines() if membership.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = sys / "fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = sys / "fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # Inside a container the path may be the host's; then only the root is there, and it is the container's.
        group = root / path.lstrip("/")
        for place in (group, *group.parents):
            if place.is_relative_to(root):
                yield from _group_bound(place, *names)


def _group_bound(
    place: Path, limit_name: str, usage_name: str, cache_name: str
) -> Iterator[Bound]:
    """The limit of one control group, less what is in use there and cannot be dropped."""
    try:
        limit = (place / limit_name).read_text().strip()
        usage = int((place / usage_name).read_text())
        stat = (place / "memory.stat").read_text().splitlines()
    except OSError:
        return
    if limit != "max":
        droppable = {name: int(value) for name, value in (line.split() for line in stat)}
        free = int(limit) - usage + droppable.get(cache_name, 0)
        source = f"memory limit in {place / limit_name}"
        yield Bound(free, source, "raise the container's limit", int(limit), source)


def readable(size_bytes: int) -> str:
    """A size as people read it."""
    gib = size_bytes / (1 << 30)
    return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * 1024:.1f} MiB"
