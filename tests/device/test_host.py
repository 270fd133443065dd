"""What only the host device has: files of other processes, named by people, truncated by engines."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from device.conftest import native
from device.rig import (
    SESSION,
    EngineFile,
    Recorder,
    Rig,
    blocks_in_a_row,
    open_files,
    random_bytes,
)
from kvstow.server.core.spans import Segment, plan_spans
from kvstow.server.device.base import DeviceError
from kvstow.server.device.handles import SharedMemoryHandle
from kvstow.server.device.host import GONE, HostDevice
from kvstow.server.device.kernel import LIBRARY, NativeKernel
from kvstow.server.device.pool import HostPool
from support.processes import running_process
from support.waiting import wait_for

PAGE = 4096


@native
def test_a_truncated_file_fails_its_blocks_and_the_device_goes_on(
    pool: HostPool, shared_memory: Path
) -> None:
    device = HostDevice(pool, kernel=NativeKernel(LIBRARY))
    engine = EngineFile(shared_memory / "engine", 16 * PAGE)
    engine.write(content := random_bytes(16 * PAGE))
    regions = [device.open_region(engine.handle, SESSION)]
    host_rig = Rig(
        device, pool.memory.view, lambda size: EngineFile(shared_memory / "other", size)
    )
    blocks = list(range(16))
    spans = plan_spans([Segment(0, 0, PAGE, PAGE)], blocks, blocks[::-1], PAGE, 16 * PAGE, 0)
    os.truncate(engine.path, 8 * PAGE)

    store, load = Recorder(), Recorder()
    host_rig.store(store, spans, regions)
    assert store.wait_end().failures == [(block, GONE) for block in range(8, 16)]
    assert store.wait_end().copied_bytes == 8 * PAGE
    stored = host_rig.pool[: 16 * PAGE].reshape(16, PAGE)[::-1]
    assert np.array_equal(stored[:8].ravel(), content[: 8 * PAGE])
    host_rig.load(load, spans, regions)
    assert load.wait_end().failed == list(range(8, 16))

    other = host_rig.allocate(PAGE)
    other.write(random_bytes(PAGE, seed=1))
    again = Recorder()
    host_rig.store(again, blocks_in_a_row(1, PAGE), [device.open_region(other.handle, SESSION)])
    assert again.wait_end().failures == []
    assert np.array_equal(host_rig.pool[:PAGE], other.read())
    device.close()


ENGINE = """
import os, sys, numpy as np, mmap
descriptor = os.memfd_create("kv-cache")
os.ftruncate(descriptor, 1 << 20)
view = np.frombuffer(mmap.mmap(descriptor, 0), dtype=np.uint8)
view[:] = np.random.default_rng(5).integers(0, 256, 1 << 20, dtype=np.uint8)
before = view.copy()
print(f"/proc/{os.getpid()}/fd/{descriptor}", flush=True)
sys.stdin.readline()  # stored: the cache is lost
view[:] = 0
print("lost", flush=True)
sys.stdin.readline()  # loaded
print(np.array_equal(view, before), flush=True)
"""


def test_an_engine_in_another_process_gets_its_bytes_back(host_rig: Rig) -> None:
    with running_process([sys.executable, "-c", ENGINE], stdin=subprocess.PIPE) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        path = engine.stdout.readline().strip()
        regions = [host_rig.device.open_region(SharedMemoryHandle(path, 0, 1 << 20), SESSION)]
        spans = blocks_in_a_row(16, 1 << 16)
        for order in (host_rig.store, host_rig.load):
            owner = Recorder()
            order(owner, spans, regions)
            assert owner.wait_end().failures == []
            print(file=engine.stdin, flush=True)
            answer = engine.stdout.readline().strip()
    assert answer == "True"


def test_a_region_may_begin_anywhere_in_its_file(host_rig: Rig, shared_memory: Path) -> None:
    engine = EngineFile(shared_memory / "engine", 3 * PAGE)
    engine.write(random_bytes(3 * PAGE))
    region = host_rig.device.open_region(
        replace(engine.handle, offset_bytes=4001, size_bytes=500), SESSION
    )
    owner = Recorder()
    host_rig.store(owner, blocks_in_a_row(5, 100), [region])

    assert owner.wait_end().failures == []
    assert np.array_equal(host_rig.pool[:500], engine.read()[4001:4501])
    assert region.size_bytes == 500


def test_closed_memory_is_unmapped_when_its_last_copy_has_ended(
    host_rig: Rig, shared_memory: Path
) -> None:
    region = host_rig.device.open_region(EngineFile(shared_memory / "lost", PAGE).handle, SESSION)
    for _ in range(4):
        owner = Recorder()
        host_rig.store(owner, blocks_in_a_row(1, PAGE), [region])
        owner.wait_end()
    assert str(shared_memory / "lost") in Path("/proc/self/maps").read_text()
    host_rig.device.close_region(region)

    wait_for(
        lambda: str(shared_memory / "lost") not in Path("/proc/self/maps").read_text(),
        "the end of the mapping",
    )


def test_a_region_takes_no_descriptor(host_rig: Rig, shared_memory: Path) -> None:
    handle = _file(shared_memory / "engine")
    status = os.stat(handle.path)
    region = host_rig.device.open_region(handle, SESSION)

    assert region.size_bytes == PAGE
    assert (status.st_dev, status.st_ino) not in open_files()


@dataclass(frozen=True)
class Mistake:
    """A handle that must be refused, made in a directory of shared memory, and what it is told."""

    make: Callable[[Path], SharedMemoryHandle]
    complaint: str


def _file(path: Path, size_bytes: int = PAGE) -> SharedMemoryHandle:
    path.write_bytes(bytes(size_bytes))
    return SharedMemoryHandle(str(path), 0, size_bytes)


def _link(directory: Path) -> SharedMemoryHandle:
    target = _file(directory / "engine")
    (directory / "link").symlink_to(target.path)
    return replace(target, path=str(directory / "link"))


def _pipe(directory: Path) -> SharedMemoryHandle:
    os.mkfifo(directory / "pipe")
    return SharedMemoryHandle(str(directory / "pipe"), 0, PAGE)


MISTAKES = {
    "unknown": Mistake(
        lambda shm: SharedMemoryHandle(f"{shm}/absent", 0, PAGE), "No such file or directory"
    ),
    "short": Mistake(
        lambda shm: replace(_file(shm / "engine"), size_bytes=PAGE + 1),
        "has 4096 bytes, the region ends at 4097",
    ),
    "empty": Mistake(
        lambda shm: replace(_file(shm / "engine", 0), size_bytes=1),
        "has 0 bytes, the region ends at 1",
    ),
    "beyond": Mistake(
        lambda shm: replace(_file(shm / "engine"), offset_bytes=1),
        "has 4096 bytes, the region ends at 4097",
    ),
    "huge": Mistake(
        lambda shm: replace(_file(shm / "engine"), offset_bytes=2**64), "the region ends at"
    ),
    "before": Mistake(
        lambda shm: replace(_file(shm / "engine"), offset_bytes=-1), "offset_bytes -1"
    ),
    "nothing": Mistake(lambda shm: replace(_file(shm / "engine"), size_bytes=0), "size_bytes 0"),
    "directory": Mistake(lambda shm: SharedMemoryHandle(str(shm), 0, PAGE), "is a directory"),
    "link": Mistake(lambda shm: _link(shm), "is a symbolic link"),
    "pipe": Mistake(lambda shm: _pipe(shm), "is a device, pipe or socket"),
    "device": Mistake(
        lambda _: SharedMemoryHandle("/dev/zero", 0, PAGE), "is a device, pipe or socket"
    ),
    "own": Mistake(lambda _: SharedMemoryHandle("/proc/self/fd/0", 0, 1), "is a symbolic link"),
    "relative": Mistake(
        lambda _: SharedMemoryHandle("engine", 0, PAGE), "is not an absolute path"
    ),
    "nul": Mistake(lambda _: SharedMemoryHandle("/a\0b", 0, PAGE), "is not an absolute path"),
    "proc": Mistake(lambda _: SharedMemoryHandle("/proc/self/maps", 0, 1), "is on none of tmpfs"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_handle_that_is_no_engine_memory_is_refused(
    host: HostDevice, shared_memory: Path, name: str
) -> None:
    mistake = MISTAKES[name]
    handle = mistake.make(shared_memory)

    with pytest.raises(DeviceError, match=mistake.complaint) as refusal:
        host.open_region(handle, SESSION)
    assert handle.path in str(refusal.value) or repr(handle.path) in str(refusal.value)


def test_a_closed_pool_is_not_touched(host_rig: Rig, pool: HostPool) -> None:
    memory = host_rig.allocate(PAGE)
    region = host_rig.device.open_region(memory.handle, SESSION)
    pool.close()
    owner = Recorder()
    host_rig.load(owner, blocks_in_a_row(1, PAGE), [region])

    assert owner.wait_end().failed == [0]


@native
def test_the_kernel_in_use_can_be_told(pool: HostPool) -> None:
    device = HostDevice(pool)

    assert device.kernel_name == "native"
    device.close()
