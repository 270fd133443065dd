"""What is said of memory, on machines that are described."""

from pathlib import Path

import pytest

from cli.doctor.scenes import DAEMON, GIB, LIMITS, MEMORY, SHARED, machine, scene
from kvstow.cli.doctor import kernel, memory
from kvstow.cli.doctor.findings import Finding, Level
from kvstow.v1 import cache_pb2

OK, WARNING, FAILURE = Level.OK, Level.WARNING, Level.FAILURE
GROUP = f"/proc/{DAEMON}/cgroup"
V2 = "/sys/fs/cgroup/pod/daemon"
V1 = "/sys/fs/cgroup/memory/pod"
THP = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
NODES_WITH_MEMORY = "/sys/devices/system/node/has_memory"
CGROUP2 = "31 24 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
SMAPS = (
    "00400000-00401000 r-xp 00000000 08:01 12   /usr/bin/python3\nShmemPmdMapped:  4096 kB\n"
    "7f0000000000-7f0200000000 rw-s 00000000 00:01 383   /memfd:kvstow-pool (deleted)\n"
    "Size:  8388608 kB\nShmemPmdMapped:  4194304 kB\nPrivate_Hugetlb:        0 kB\n"
    "7f1000000000-7f1200000000 rw-s 00000000 00:27 9   /dev/shm/engine\nShmemPmdMapped:  8 kB\n"
)
NODES = "7f0000000000 default file=/memfd:kvstow-pool\\040(deleted) dirty=9 N0={} N1={} kernelpagesize_kB=4\n"


def version_2(limit: str, used: int = 9 * GIB, cache: int = 0) -> dict[str, str]:
    """A control group of version 2 below one that has no limit."""
    return {
        "/proc/meminfo": MEMORY,
        "/proc/self/mountinfo": SHARED + CGROUP2,
        GROUP: "0::/pod/daemon\n",
        "/sys/fs/cgroup/pod/memory.max": "max\n",
        "/sys/fs/cgroup/pod/memory.current": "1\n",
        f"{V2}/memory.max": f"{limit}\n",
        f"{V2}/memory.current": f"{used}\n",
        f"{V2}/memory.stat": f"anon 5\ninactive_file {cache}\n",
    }


def version_1(limit: int) -> dict[str, str]:
    """A control group of version 1 that is mounted at the place of all, as in a container."""
    return {
        "/proc/meminfo": MEMORY,
        "/proc/self/mountinfo": (
            "31 24 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
            "32 31 0:29 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
        ),
        GROUP: "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{limit}\n",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{9 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.stat": "cache 1\ntotal_inactive_file 0\n",
    }


def assert_found(finding: Finding | None, level: Level, *phrases: str) -> None:
    assert finding is not None
    assert finding.level is level, finding
    assert bool(finding.advice) is (level is not OK)
    for phrase in phrases:
        assert phrase in finding.found


def meminfo(total_kib: int, available_kib: int) -> dict[str, str]:
    return {"/proc/meminfo": f"MemTotal: {total_kib} kB\nMemAvailable: {available_kib} kB\n"}


@pytest.mark.parametrize(
    ("files", "wanted_bytes", "advice"),
    [
        (version_2(str(6 * GIB)), None, "raise the limit to 8.5 GiB or more, or lower pool_size"),
        # Nobody can raise what the machine has.
        (meminfo(4 << 20, 4 << 20), None, "lower pool_size to 3.5 GiB or less"),
        (
            meminfo(16 << 20, 6 << 20),
            8 * GIB,
            "lower pool_size to 5.5 GiB or less, or end what else takes memory",
        ),
        (
            meminfo(16 << 20, 1 << 18),
            8 * GIB,
            "end what else takes memory: 256.0 MiB are left for a pool and 512.0 MiB besides it",
        ),
    ],
)
def test_what_to_do_can_be_done(
    tmp_path: Path, files: dict[str, str], wanted_bytes: int | None, advice: str
) -> None:
    if wanted_bytes is None:
        found = scene(machine(tmp_path, files))
    else:
        found = scene(machine(tmp_path, files), pid=None, answers=False, wanted_bytes=wanted_bytes)
    finding = memory.check_memory(found)
    assert finding is not None
    assert finding.advice == advice


@pytest.mark.parametrize(
    ("files", "level", "phrase"),
    [
        (version_2("max"), OK, "64.0 GiB (MemTotal"),
        (version_2(str(16 * GIB)), OK, f"under 16.0 GiB ({V2}/memory.max)"),
        (version_2(str(8 * GIB + 1)), WARNING, "1 B are left"),
        (version_2(str(6 * GIB)), FAILURE, "it does not fit"),
        (version_1(9223372036854771712), OK, "MemTotal"),
        (
            version_1(6 * GIB),
            FAILURE,
            "under 6.0 GiB (/sys/fs/cgroup/memory/memory.limit_in_bytes)",
        ),
        ({"/proc/meminfo": "MemTotal:  4194304 kB\n"}, FAILURE, "under 4.0 GiB"),
        ({}, WARNING, "no limit can be read"),
    ],
)
def test_a_limit_is_held_against_the_pool(
    tmp_path: Path, files: dict[str, str], level: Level, phrase: str
) -> None:
    assert_found(memory.check_memory(scene(machine(tmp_path, files))), level, phrase)


def test_a_group_without_a_limit_has_none(tmp_path: Path) -> None:
    found = machine(tmp_path, version_1(9223372036854771712))
    assert kernel.group_limits(found, str(DAEMON)) == []


@pytest.mark.parametrize(
    ("files", "theirs"),
    [
        (version_2(str(6 * GIB)), "0::/../daemon.scope\n"),  # a sibling, seen from a namespace
        (version_2(str(6 * GIB)), "0::/..\n"),
        (version_2(str(6 * GIB)) | {"/proc/self/mountinfo": SHARED}, "0::/pod/daemon\n"),
        (version_1(6 * GIB), "4:memory:/docker/other\n0::/\n"),
    ],
)
def test_the_limit_of_this_side_is_not_taken_for_the_daemons(
    tmp_path: Path, files: dict[str, str], theirs: str
) -> None:
    here = {"/sys/fs/cgroup/memory.max": f"{6 * GIB}\n", "/sys/fs/cgroup/memory.current": "1\n"}
    apart = scene(machine(tmp_path, files | here | {GROUP: theirs}))
    assert_found(memory.check_memory(apart), WARNING, "64.0 GiB (MemTotal", "cannot be seen")


@pytest.mark.parametrize(("wanted", "level"), [(5, OK), (7, FAILURE)])
def test_before_the_start_what_is_in_use_counts_unless_it_can_be_dropped(
    tmp_path: Path, wanted: int, level: Level
) -> None:
    files = version_2(str(16 * GIB), used=12 * GIB, cache=2 * GIB)
    files["/proc/self/cgroup"] = files.pop(GROUP)
    planned = scene(machine(tmp_path, files), pid=None, answers=False, wanted_bytes=wanted * GIB)
    assert_found(memory.check_memory(planned), level, "of which 10.0 GiB are in use")


@pytest.mark.parametrize(("wanted", "level"), [(3, OK), (5, FAILURE)])
def test_before_the_start_what_others_use_of_the_machine_counts(
    tmp_path: Path, wanted: int, level: Level
) -> None:
    files = {"/proc/meminfo": f"{MEMORY}MemAvailable:    4194304 kB\n"}
    planned = scene(machine(tmp_path, files), pid=None, answers=False, wanted_bytes=wanted * GIB)
    assert_found(memory.check_memory(planned), level, "of which 60.0 GiB are in use (MemTotal")


def test_once_there_the_pool_is_what_is_in_use(tmp_path: Path) -> None:
    files = {"/proc/meminfo": f"{MEMORY}MemAvailable:    4194304 kB\n"}
    assert_found(memory.check_memory(scene(machine(tmp_path, files))), OK, "under 64.0 GiB")


def test_nothing_is_said_of_a_process_that_cannot_be_seen(tmp_path: Path) -> None:
    hidden = scene(machine(tmp_path, version_2(str(6 * GIB))), pid=0)
    assert memory.check_memory(hidden) is None
    assert memory.check_memlock(hidden) is None
    assert memory.check_pool(hidden) is None


@pytest.mark.parametrize(
    ("space", "level", "phrase"),
    [
        ((24 * GIB, 20 * GIB), OK, "24.0 GiB, of which 20.0 GiB are free"),
        ((64 << 20, 64 << 20), WARNING, "64.0 MiB"),
        ((24 * GIB, 1 << 20), WARNING, "it is full"),
        ((0, 0), OK, "0 B"),  # no size of its own
        (None, FAILURE, "there is no /dev/shm"),
    ],
)
def test_shared_memory_is_large_enough_for_an_engine(
    tmp_path: Path, space: tuple[int, int] | None, level: Level, phrase: str
) -> None:
    found = scene(machine(tmp_path, {}, shared_memory=space))
    assert_found(memory.check_shared_memory(found), level, phrase)


def test_the_pool_is_told_from_other_mappings(tmp_path: Path) -> None:
    found = scene(machine(tmp_path, {f"/proc/{DAEMON}/smaps": SMAPS}))
    assert_found(memory.check_pool(found), OK, "8.0 GiB in /memfd:kvstow-pool", "50 % of it")


def test_a_pool_that_cannot_be_seen_is_said_to_be_so(tmp_path: Path) -> None:
    assert_found(memory.check_pool(scene(machine(tmp_path, {}))), WARNING, "cannot be seen")


@pytest.mark.parametrize(
    ("chosen", "level", "phrase"),
    [
        ("always within_size [advise] never deny force", OK, "shared memory: advise"),
        ("always within_size advise [never] deny force", WARNING, "hugetlb: 3 of 8 pages free"),
        ("always within_size advise never [deny] force", WARNING, "shared memory: deny"),
    ],
)
def test_huge_pages_are_allowed_for_shared_memory(
    tmp_path: Path, chosen: str, level: Level, phrase: str
) -> None:
    found = scene(machine(tmp_path, {THP: chosen, "/proc/meminfo": MEMORY}))
    assert_found(memory.check_huge_pages(found), level, phrase)


def test_a_pool_in_huge_pages_needs_no_others(tmp_path: Path) -> None:
    files = {
        THP: "always within_size advise [never] deny force",
        f"/proc/{DAEMON}/smaps": SMAPS.replace("4194304 kB", "8388608 kB"),
    }
    found = scene(machine(tmp_path, files))
    assert_found(memory.check_huge_pages(found), OK, "the pool lies in some")


def test_nothing_is_said_of_what_the_kernel_does_not_know(tmp_path: Path) -> None:
    bare = scene(machine(tmp_path, {}))
    assert memory.check_huge_pages(bare) is None
    assert memory.check_numa(bare) is None
    assert memory.check_memlock(bare) is None


@pytest.mark.parametrize(
    ("nodes", "counts", "level", "phrase"),
    [
        ("0", (0, 0), OK, "one node"),
        ("0-1", (1 << 20, 1 << 20), OK, "4.0 GiB on node 0, 4.0 GiB on node 1"),
        ("0-1", (1 << 21, 0), WARNING, "8.0 GiB on node 0, 0 B on node 1"),
    ],
)
def test_numa_nodes_share_the_pool(
    tmp_path: Path, nodes: str, counts: tuple[int, int], level: Level, phrase: str
) -> None:
    files = {
        "/sys/devices/system/node/online": "0-3",  # some without memory, as of CPUs or GPUs alone
        NODES_WITH_MEMORY: nodes,
        f"/proc/{DAEMON}/smaps": SMAPS,
        f"/proc/{DAEMON}/numa_maps": NODES.format(*counts),
    }
    assert_found(memory.check_numa(scene(machine(tmp_path, files))), level, phrase)


def test_where_a_pool_lies_may_be_out_of_sight(tmp_path: Path) -> None:
    found = scene(machine(tmp_path, {NODES_WITH_MEMORY: "0-3,8"}))
    assert_found(memory.check_numa(found), OK, "5 nodes; where the pool lies cannot be seen")


@pytest.mark.parametrize(
    ("locked", "with_gpu", "pinned", "level"),
    [
        ("unlimited", True, False, OK),
        (str(8 * GIB), True, False, OK),
        (str(8 << 20), False, False, OK),
        (str(8 << 20), True, True, OK),
        (str(8 << 20), True, False, WARNING),
    ],
)
def test_a_pool_for_gpus_can_be_page_locked(
    tmp_path: Path, locked: str, with_gpu: bool, pinned: bool, level: Level
) -> None:
    files = {f"/proc/{DAEMON}/limits": LIMITS.format(files=9, locked=locked)}
    gpus = [cache_pb2.Gpu(uuid="u")] if with_gpu else []
    found = scene(machine(tmp_path, files), gpus=gpus, pinned=pinned)
    assert_found(memory.check_memlock(found), level)
