"""Where the limits of memory are found, on machines described by files."""

from pathlib import Path

import pytest

from kvstow.server.device.limits import Bound, file_bounds

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Roots of /proc and /sys of a machine with 10 GiB available and no control groups."""
    write(
        tmp_path / "proc/meminfo",
        f"MemTotal: {16 * GIB // 1024} kB\nMemAvailable: {10 * GIB // 1024} kB\n",
    )
    write(tmp_path / "proc/self/statm", "1000 1 1 1 0 1 0\n")
    (tmp_path / "sys").mkdir()
    return tmp_path


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def bounds(machine: Path, directory: Path | None = None) -> list[Bound]:
    return list(file_bounds(directory, machine / "proc", machine / "sys"))


def group(machine: Path, path: str, limit: str, usage: int, cache: int) -> None:
    """A control group of version 2."""
    place = machine / "sys/fs/cgroup" / path
    write(place / "memory.max", f"{limit}\n")
    write(place / "memory.current", f"{usage}\n")
    write(place / "memory.stat", f"anon 1\ninactive_file {cache}\n")


def test_a_bare_machine_gives_what_is_available(machine: Path) -> None:
    (bound,) = bounds(machine)
    assert (bound.free_bytes, bound.total_bytes) == (10 * GIB, 16 * GIB)
    assert bound.whole == "MemTotal in /proc/meminfo"


def test_every_group_above_the_process_counts(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/outer/inner\n")
    group(machine, "outer", str(8 * GIB), usage=3 * GIB, cache=GIB)
    group(machine, "outer/inner", "max", usage=2 * GIB, cache=0)

    _, outer = bounds(machine)
    assert (outer.free_bytes, outer.total_bytes) == (6 * GIB, 8 * GIB)
    assert outer.source.endswith("sys/fs/cgroup/outer/memory.max")


def test_in_a_container_the_root_is_its_own(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "0::/kubepods/pod1/container\n")
    group(machine, "", str(4 * GIB), usage=GIB, cache=0)

    assert [bound.free_bytes for bound in bounds(machine)] == [10 * GIB, 3 * GIB]


def test_version_1_counts_too(machine: Path) -> None:
    write(machine / "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/c\n0::/\n")
    place = machine / "sys/fs/cgroup/memory/docker/c"
    write(place / "memory.limit_in_bytes", f"{5 * GIB}\n")
    write(place / "memory.usage_in_bytes", f"{2 * GIB}\n")
    write(place / "memory.stat", f"total_inactive_file {GIB}\n")

    assert [bound.free_bytes for bound in bounds(machine)] == [10 * GIB, 4 * GIB]
    assert [bound.total_bytes for bound in bounds(machine)] == [16 * GIB, 5 * GIB]


def test_a_mount_gives_its_free_space(machine: Path, shared_memory: Path) -> None:
    space, *others = bounds(machine, shared_memory)

    assert 0 < space.free_bytes <= space.total_bytes
    assert space.source == f"free space in {shared_memory}"
    assert space.whole == f"size of {shared_memory}"
    assert [bound.free_bytes for bound in others] == [10 * GIB]


def test_huge_pages_are_reserved_and_bound_by_nothing_else(
    machine: Path, shared_memory: Path
) -> None:
    """Any mount will do here: the pages of the machine described are as large as those of this one."""
    kib = shared_memory.stat().st_blksize // 1024
    pages = machine / f"sys/kernel/mm/hugepages/hugepages-{kib}kB"
    write(pages / "free_hugepages", "3\n")
    write(pages / "nr_hugepages", "5\n")

    _, reserved = bounds(machine, shared_memory)
    assert (reserved.free_bytes, reserved.source) == (3 * kib * 1024, f"{pages}/free_hugepages")
    assert (reserved.total_bytes, reserved.whole) == (5 * kib * 1024, f"{pages}/nr_hugepages")
