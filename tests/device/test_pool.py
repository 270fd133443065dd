"""The host pool is there in full, or not at all with the reason; it leaves nothing behind."""

import ctypes
import mmap
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from device.rig import open_files
from kvstow.server.device import pool as pool_module
from kvstow.server.device.base import DeviceError
from kvstow.server.device.files import lies_in_memory
from kvstow.server.device.limits import Bound
from kvstow.server.device.pool import POPULATE_BYTES, HostPool, check_capacity

MIB = 1 << 20
MAPS = Path("/proc/self/maps")


def resident_bytes(pool: HostPool) -> int:
    """How much of the pool is in memory."""
    size = pool.memory.view.size
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    libc = ctypes.CDLL(None)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    assert libc.mincore(pool.memory.address, size, pages) == 0
    return sum(byte & 1 for byte in pages.raw) * mmap.PAGESIZE


@pytest.mark.parametrize("advice", [pool_module.MADV_POPULATE_WRITE, 9999])
@pytest.mark.parametrize("in_directory", [False, True])
def test_the_pool_is_faulted_in_with_progress(
    monkeypatch: pytest.MonkeyPatch, shared_memory: Path, in_directory: bool, advice: int
) -> None:
    """An advice that the kernel does not know stands for a kernel that is too old."""
    monkeypatch.setattr(pool_module, "MADV_POPULATE_WRITE", advice)
    size_bytes = 2 * POPULATE_BYTES + 3 * mmap.PAGESIZE
    pool = HostPool(size_bytes, shared_memory if in_directory else None)
    assert resident_bytes(pool) == 0
    reports: list[int] = []
    pool.populate(reports.append, 2)

    assert reports == [POPULATE_BYTES, 2 * POPULATE_BYTES, size_bytes]
    assert resident_bytes(pool) == size_bytes
    assert not pool.memory.view.any()
    assert 0 <= pool.huge_page_bytes() <= size_bytes
    pool.close()


def test_a_pool_has_the_size_that_was_asked_for() -> None:
    pool = HostPool(mmap.PAGESIZE + 1)
    pool.memory.view[:] = 255

    assert pool.size_bytes == pool.memory.view.size == mmap.PAGESIZE + 1
    pool.close()


def test_the_pool_stays_out_of_core_files() -> None:
    pool = HostPool(MIB)
    mappings = Path("/proc/self/smaps").read_text().split(f"{pool.memory.address:x}-")[1]
    flags = re.search(r"^VmFlags: (.*)$", mappings, re.MULTILINE)

    assert flags is not None
    assert "dd" in flags[1].split()
    pool.close()


@pytest.mark.parametrize("in_directory", [False, True])
def test_nobody_else_can_open_the_pool(shared_memory: Path, in_directory: bool) -> None:
    """A descriptor of it would have a name under /proc that an engine could attach as its own memory."""
    pool = HostPool(MIB, shared_memory if in_directory else None)
    mapped = re.search(
        rf"^{pool.memory.address:x}-\S+ \S+ \S+ (\w+):(\w+) (\d+)", MAPS.read_text(), re.MULTILINE
    )

    assert mapped is not None
    major, minor, inode = mapped.groups()
    assert (os.makedev(int(major, 16), int(minor, 16)), int(inode)) not in open_files()
    pool.close()


def test_pieces_of_the_pool_are_zeroed_and_no_more() -> None:
    pool = HostPool(64)
    pool.memory.view[:] = 1
    pool.zero([range(1, 3), range(8), range(40, 64)])
    assert np.flatnonzero(pool.memory.view).tolist() == list(range(8, 40))
    pool.close()


def test_faulting_in_stops_when_it_is_told_to() -> None:
    class Stopped(Exception):
        pass

    def stop(done_bytes: int) -> None:
        raise Stopped

    pool = HostPool(2 * POPULATE_BYTES)
    with pytest.raises(Stopped):
        pool.populate(stop, 1)
    pool.close()


def test_a_closed_pool_is_gone_when_the_last_user_lets_go() -> None:
    pool = HostPool(MIB)
    user = pool.memory.view
    pool.close()
    user[:] = 1

    assert np.count_nonzero(user) == MIB
    assert pool.memory.view.size == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from kvstow.server.device.pool import HostPool
pool = HostPool(1 << 20, Path(sys.argv[1]))
print(os.listdir(sys.argv[1]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_nothing_behind(shared_memory: Path) -> None:
    for _ in range(2):
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(shared_memory)],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        assert killed.stdout == "[]\n"
        assert list(shared_memory.iterdir()) == []


def test_a_pool_that_does_not_fit_says_what_was_found(shared_memory: Path) -> None:
    with pytest.raises(DeviceError) as refusal:
        HostPool(1 << 60, shared_memory)

    message = str(refusal.value)
    assert "a host pool of 1073741824.00 GiB does not fit" in message
    assert f"free space in {shared_memory} leaves " in message
    assert "MemAvailable in /proc/meminfo leaves " in message
    assert "\n" not in message


def test_what_there_is_at_all_is_known_without_taking_it(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 3 * MIB
    bounds = [Bound(MIB, "free", "", limit, "the limit"), Bound(9 * MIB, "", "", 9 * MIB, "all")]
    monkeypatch.setattr(pool_module, "file_bounds", lambda directory: bounds)
    check_capacity(limit)
    with pytest.raises(DeviceError) as refusal:
        check_capacity(limit + 1)
    assert str(refusal.value) == "3.0 MiB are more than there is: the limit is 3.0 MiB"


def test_what_there_is_in_a_directory_that_is_not_there(shared_memory: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_capacity(MIB, shared_memory / "absent")


LIMITED = """
import resource, sys
from kvstow.server.device.pool import HostPool
limit = getattr(resource, sys.argv[1])
resource.setrlimit(limit, (4 << 30, resource.getrlimit(limit)[1]))
HostPool(8 << 30)
"""


@pytest.mark.parametrize("limit", ["RLIMIT_FSIZE", "RLIMIT_AS"])
def test_the_limits_of_the_process_count(limit: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-c", LIMITED, limit], stderr=subprocess.PIPE, text=True, check=False
    )

    assert f"{limit} leaves " in refused.stderr.splitlines()[-1]


def test_a_directory_that_is_not_there_is_named(shared_memory: Path) -> None:
    with pytest.raises(DeviceError, match=f"{shared_memory}/absent: No such file"):
        HostPool(MIB, shared_memory / "absent")


def test_a_directory_on_a_disk_is_refused(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    in_memory = lies_in_memory(descriptor)
    os.close(descriptor)
    if in_memory:
        pytest.skip("temporary files lie in memory here")

    with pytest.raises(DeviceError, match=f"{tmp_path} is on none of tmpfs"):
        HostPool(MIB, tmp_path)
