"""Which devices a daemon has, and the binding of the driver where there is none, an old one, or one without GPUs."""

import ctypes
import re
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from device.conftest import stub_rig
from device.rig import SESSION, Recorder, blocks_in_a_row
from device.stub import StubMemory, compiled, count, library, set_hanging
from kvstow.server import process
from kvstow.server.command_line import load
from kvstow.server.device.base import CudaOffError, DeviceError
from kvstow.server.device.choice import Choice, Wishes, choose_devices
from kvstow.server.device.cuda.abi import Copy2D, CopyAttributes, IpcHandle, Side
from kvstow.server.device.cuda.libcuda import LibCuda
from kvstow.server.device.handles import HOST, CudaHandle
from kvstow.server.device.pool import HostPool
from support.waiting import DEADLINE_S, wait_for

NOTHING = "libcuda-that-is-not-there.so"
WISHES = Wishes(2, 4096, "auto", pinned=True, watchdog_s=60.0, library=NOTHING)
FIRST, SECOND = "00010203-0405-0607-0809-0a0b0c0d0e0f", "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff"


def test_without_a_driver_the_daemon_serves_host_memory_and_says_why(pool: HostPool) -> None:
    choice = choose_devices(pool, WISHES)
    assert choice.cuda is None
    assert not choice.pinned
    assert f"the CUDA driver cannot be used: {NOTHING}: cannot open" in choice.cuda_off
    with pytest.raises(CudaOffError, match=NOTHING):
        choice.device.open_region(CudaHandle(FIRST, bytes(64), 0, 1), SESSION)
    choice.device.close()


def test_cuda_that_is_insisted_on_and_not_there_ends_the_start(pool: HostPool) -> None:
    with pytest.raises(DeviceError, match=rf"{NOTHING}.*set cuda to auto or off"):
        choose_devices(pool, replace(WISHES, cuda="on"))


@compiled
def test_cuda_that_is_not_wanted_is_not_looked_for(pool: HostPool) -> None:
    choice = choose_devices(pool, replace(WISHES, cuda="off", library=library("13")))
    assert choice.cuda_off == "the setting cuda is off"
    choice.device.close()


@pytest.fixture
def _once_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives up on what has not begun yet, because it would never be begun then."""
    result = Future.result

    def result_once_begun(future: "Future[Any]", timeout: float | None = None) -> Any:
        wait_for(lambda: future.running() or future.done(), "the begin")
        return result(future, timeout)

    monkeypatch.setattr(Future, "result", result_once_begun)


@compiled
@pytest.mark.usefixtures("_once_begun")
def test_a_driver_that_does_not_come_up_does_not_keep_the_daemon_from_starting(
    pool: HostPool,
) -> None:
    set_hanging("13", True)
    try:
        choice = choose_devices(pool, replace(WISHES, watchdog_s=0.05, library=library("13")))
        assert re.search(r"did not initialize the CUDA driver within 0\.05 s", choice.cuda_off)
        choice.device.close()
        assert [thread.name for thread in loaders()] == ["gpu-loader"]
    finally:
        set_hanging("13", False)
    wait_for(lambda: loaders() == [], "the end of what hung")


def loaders() -> list[threading.Thread]:
    """Threads that a driver keeps from being loaded."""
    return [thread for thread in threading.enumerate() if thread.name == "gpu-loader"]


@pytest.mark.parametrize("name", [NOTHING, "libc.so.6"])
def test_a_driver_that_is_none_keeps_no_thread(pool: HostPool, name: str) -> None:
    """Whose life would be taken for a call that does not return."""
    for _ in range(50):
        choose_devices(pool, replace(WISHES, library=name)).device.close()
        assert loaders() == []


@compiled
def test_gpus_that_are_there_are_used(pool: HostPool) -> None:
    choice = choose_devices(pool, replace(WISHES, cuda="on", library=library("13")))
    assert choice.cuda is not None
    assert (choice.cuda_off, choice.pinned) == ("", True)
    health = choice.device.health()
    assert [(one.device, one.name) for one in health] == [
        (HOST, "host memory"),
        (FIRST, "First"),
        (SECOND, "Second"),
    ]
    assert count("13", "contexts") == 0
    choice.device.close()


def test_a_library_that_is_no_driver_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"cannot be used: .*cuInit"):
        LibCuda("libc.so.6")


@compiled
def test_a_gpu_that_takes_no_batches_gets_none(pool: HostPool) -> None:
    before = count("13", "batches")
    with stub_rig(pool, "13", gpu=1, copies="rows") as rig:
        region = rig.device.open_region(rig.allocate(4096).handle, SESSION)
        owner = Recorder()
        rig.store(owner, blocks_in_a_row(4, 64), [region])
        assert owner.wait_end().failures == []
    assert count("13", "batches") == before


@compiled
def test_a_call_that_hangs_stops_its_own_thread_only() -> None:
    driver = LibCuda(library("13"))
    driver.use(0)
    stream = driver.create_stream()
    set_hanging("13", True)
    thread = threading.Thread(target=driver.wait_stream, args=[stream])
    thread.start()
    try:  # with the interpreter's lock held in the call nothing here would ever run
        event = driver.create_event()
        assert thread.is_alive()
    finally:
        set_hanging("13", False)
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    driver.destroy_event(event)
    driver.destroy_stream(stream)
    driver.release(0)


@compiled
def test_the_size_of_opened_memory_is_asked_for() -> None:
    driver = LibCuda(library("13"))
    driver.use(0)
    memory = StubMemory(FIRST, 4096)
    address = driver.open_memory(memory.handle.allocation)
    assert driver.memory_bytes(address) == 4096
    assert driver.memory_bytes(address + 96) == 4000
    assert driver.memory_bytes(address + 4096) is None
    driver.close_memory(address)
    driver.release(0)


def test_the_structures_are_laid_out_as_the_driver_has_them() -> None:
    """As a compiler lays out `cuda.h` of CUDA 12.8 and 13.0 on a 64-bit machine."""
    assert ctypes.sizeof(IpcHandle) == 64
    assert ctypes.sizeof(CopyAttributes) == 24
    assert (CopyAttributes.target_hint.offset, CopyAttributes.flags.offset) == (12, 20)
    assert ctypes.sizeof(Copy2D) == 128
    assert (Side.host.offset, Side.device.offset, Side.pitch.offset) == (24, 32, 48)
    assert (Copy2D.target.offset, Copy2D.width_bytes.offset, Copy2D.height.offset) == (
        56,
        112,
        120,
    )


@pytest.mark.parametrize(("copies", "kernel"), [("dma", False), ("kernel", True)])
def test_settings_become_wishes(
    pool: HostPool, monkeypatch: pytest.MonkeyPatch, copies: str, kernel: bool
) -> None:
    asked: list[Wishes] = []

    def choose(pool: HostPool, wishes: Wishes) -> Choice:
        asked.append(wishes)
        return choose_devices(pool, replace(wishes, library=NOTHING))

    monkeypatch.setattr(process, "choose_devices", choose)
    config = load(
        [f"--cuda-copies={copies}", "--copy-threads=3", "--piece-size=8KiB", "--cuda-watchdog-s=7"]
    )
    process._choose_devices(config, pool).device.close()
    assert asked == [Wishes(3, 8192, "auto", pinned=True, watchdog_s=7.0, kernel=kernel)]
