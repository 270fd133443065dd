"""A GPU that hangs or fails: what it was doing stays its own, everything else goes on or is told at once."""

import re
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from device.conftest import WATCHDOG_S, CudaRig, cuda_rig
from device.rig import (
    SESSION,
    GpuMemory,
    Recorder,
    blocks_in_a_row,
    make_copy,
    random_bytes,
)
from device.waits import Waits
from kvstow.server.core.spans import Spans
from kvstow.server.device.base import DeviceBusyError, DeviceError, Direction, Region
from kvstow.server.device.cuda import device
from kvstow.server.device.pool import HostPool
from support.clock import ManualClock
from support.waiting import DEADLINE_S, wait_for

BLOCKS, BLOCK = 2, 4096
SPANS = blocks_in_a_row(BLOCKS, BLOCK)
"""One piece."""

LONG = blocks_in_a_row(64, BLOCK)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def rig(pool: HostPool, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaRig]:
    """Its watchdog looks when the clock is put on, and only then: it finds no trouble that is just over."""
    monkeypatch.setattr(device, "WATCH_PERIOD_S", 10 * DEADLINE_S)
    with cuda_rig(pool, clock=clock) as rig:
        clock.on_advance = rig.device._watch.look
        yield rig


def attach(
    rig: CudaRig, gpu: int = 0, size_bytes: int = LONG.size_bytes
) -> tuple[GpuMemory, Region]:
    memory = GpuMemory(rig.engine, size_bytes, gpu=gpu)
    memory.write(random_bytes(size_bytes, gpu))
    return memory, rig.device.open_region(memory.handle, SESSION)


def copy(rig: CudaRig, region: Region, spans: Spans = SPANS) -> Recorder:
    owner = Recorder()
    rig.store(owner, spans, [region])
    return owner


def healthy(rig: CudaRig) -> list[bool]:
    return [health.healthy for health in rig.device.health()]


@pytest.mark.parametrize("call", ["copy_batch", "wait_event", "record_event"])
def test_a_call_that_hangs_turns_its_gpu_red_and_no_other(
    rig: CudaRig, clock: ManualClock, call: str
) -> None:
    _, stuck = attach(rig)
    _, fine = attach(rig, gpu=1)
    with rig.driver.hanging(call, gpu=0):
        running = copy(rig, stuck)
        running.wait_start()
        wait_for(lambda: rig.driver.calls_waiting, "a call that hangs")
        assert healthy(rig) == [True, True]
        clock.advance(WATCHDOG_S + 1)
        wait_for(lambda: healthy(rig) == [False, True], "the other GPU's threads to be at rest")
        trouble = f"a store of a piece has not returned for {WATCHDOG_S + 1:.0f} s"
        wait_for(lambda: rig.device.health()[0].trouble == trouble, trouble)
        refused = copy(rig, stuck).wait_end()
        assert {reason for _, reason in refused.failures} == {
            f"GPU {rig.driver.world.uuids[0]}: {trouble}"
        }
        with pytest.raises(DeviceBusyError, match="has not returned"):
            attach(rig)
        assert copy(rig, fine).wait_end().failures == []
        assert healthy(rig) == [False, True]
        assert running.ends == []
    assert running.wait_end().failures == []
    wait_for(lambda: healthy(rig) == [True, True], "both GPUs to be healthy")
    assert copy(rig, stuck).wait_end().failures == []


def test_what_is_queued_behind_a_call_that_hangs_fails(pool: HostPool, clock: ManualClock) -> None:
    """The watchdog finds it by itself."""
    with cuda_rig(pool, clock=clock) as rig:
        _, region = attach(rig)
        with rig.driver.hanging("copy_batch", gpu=0):
            running = [copy(rig, region) for _ in range(2)]  # both threads
            for owner in running:
                owner.wait_start()
            wait_for(lambda: rig.driver.calls_waiting == 2, "two calls that hang")
            queued = copy(rig, region, LONG)
            clock.advance(WATCHDOG_S + 1)
            assert len(queued.wait_end().failed) == 64
            assert [owner.ends for owner in running] == [[], []]
        assert [owner.wait_end().failures for owner in running] == [[], []]


def test_a_large_copy_of_which_a_piece_hangs_ends_when_that_returns(
    rig: CudaRig, clock: ManualClock
) -> None:
    _, region = attach(rig)
    with rig.driver.hanging("copy_batch", gpu=0):
        large = copy(rig, region, LONG)
        wait_for(lambda: rig.driver.calls_waiting == 2, "two pieces that hang")
        behind = copy(rig, region)
        clock.advance(WATCHDOG_S + 1)
        assert behind.wait_end().failed == [0, 1], (
            "what is left of the large one has failed before"
        )
        assert large.ends == []
        assert rig.device.queue_depth(Direction.STORE) == 1
    end = large.wait_end()
    assert end.copied_bytes == 2 * SPANS.size_bytes
    assert end.failed == list(range(2 * BLOCKS, 64))


def test_a_copy_whose_fence_is_being_asked_for_stays_until_the_answer(
    rig: CudaRig, clock: ManualClock
) -> None:
    _, region = attach(rig)
    event, handle = rig.engine.event()
    stream = rig.engine.stream()
    rig.engine.launch(stream, lambda: None)
    rig.engine.record(event, stream)
    fence = rig.device.open_fence(handle, SESSION)
    asked, waiting = Recorder(), Recorder()
    with rig.driver.world.held(stream), rig.driver.hanging("event_reached", gpu=0):
        rig.device.submit(make_copy(asked, Direction.STORE, SPANS, [region], fence=fence))
        wait_for(lambda: rig.driver.calls_waiting, "a question that hangs")
        rig.device.submit(make_copy(waiting, Direction.STORE, SPANS, [region], fence=fence))
        clock.advance(WATCHDOG_S + 1)
        assert waiting.wait_end().failed == list(range(BLOCKS))
        assert asked.start_count == 0
        assert rig.device.queue_depth(Direction.STORE) == 1
    assert asked.wait_end().failures == []


@pytest.fixture
def waits(rig: CudaRig, monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Nobody waits long for a GPU that hangs."""
    return Waits(monkeypatch, rig.driver)


@pytest.mark.usefixtures("waits")
def test_an_attach_gives_up_on_a_gpu_that_hangs_and_what_opens_late_is_closed(
    rig: CudaRig,
) -> None:
    with (
        rig.driver.hanging("open_memory", gpu=0),
        pytest.raises(DeviceBusyError, match=r"gpu-0 did not map engine memory within"),
    ):
        attach(rig)
    wait_for(lambda: rig.driver.calls["close_memory"], "the close of what opened late")
    wait_for(lambda: rig.driver.mapped() == [], "the end of that")


@pytest.mark.usefixtures("waits")
def test_an_attach_that_was_not_begun_in_time_never_is(rig: CudaRig) -> None:
    _, region = attach(rig)
    with rig.driver.hanging("close_memory", gpu=0):
        with pytest.raises(DeviceBusyError, match="did not unmap engine memory yet"):
            rig.device.close_region(region)
        with pytest.raises(DeviceBusyError):
            attach(rig)
    rig.device.close_region(region)  # asked again, it is closed once
    assert rig.driver.calls["open_memory"] == 1
    assert rig.driver.calls["close_memory"] == 1
    with pytest.raises(DeviceError, match="not open"):
        rig.device.close_region(region)


@pytest.mark.usefixtures("waits")
def test_a_region_that_is_slow_to_close_is_forgotten_when_nobody_asks_again(rig: CudaRig) -> None:
    _, region = attach(rig)
    with rig.driver.hanging("close_memory", gpu=0):
        with pytest.raises(DeviceBusyError):
            rig.device.close_region(region)
        gone = weakref.ref(region)
        del region
    wait_for(lambda: gone() is None, "a region that nobody refers to")


def test_a_copy_that_the_driver_refuses_fails_alone(rig: CudaRig) -> None:
    memory, region = attach(rig)
    with rig.driver.failing("copy_batch", 1, "CUDA_ERROR_INVALID_VALUE"):
        end = copy(rig, region).wait_end()
    reason = "DeviceError: GPU 0: copy_batch says CUDA_ERROR_INVALID_VALUE (1)"
    assert end.failures == [(block, reason) for block in range(BLOCKS)]
    assert copy(rig, region).wait_end().failures == []
    assert healthy(rig) == [True, True]
    assert np.array_equal(rig.pool[: SPANS.size_bytes], memory.read()[: SPANS.size_bytes])


@pytest.mark.parametrize("call", ["record_event", "wait_event"])
def test_what_an_error_leaves_on_the_stream_is_waited_for(rig: CudaRig, call: str) -> None:
    _, region = attach(rig)
    with rig.driver.failing(call, 1, "CUDA_ERROR_INVALID_VALUE"):
        assert len(copy(rig, region).wait_end().failed) == BLOCKS
    assert rig.driver.calls["wait_stream"] == 1
    assert not any(stream.queue for stream in rig.driver.streams())


def test_a_lost_context_is_said_and_nothing_more_is_tried(rig: CudaRig) -> None:
    _, region = attach(rig)
    _, fine = attach(rig, gpu=1)
    rig.driver.lose(0)
    assert len(copy(rig, region).wait_end().failed) == BLOCKS
    assert re.fullmatch(
        r"\w+ says CUDA_ERROR_ILLEGAL_ADDRESS \(700\): its context is lost, restart the daemon",
        rig.device.health()[0].trouble,
    )
    calls = rig.driver.calls["copy_batch"]
    assert len(copy(rig, region).wait_end().failed) == BLOCKS
    with pytest.raises(DeviceBusyError, match="restart the daemon"):
        attach(rig)
    assert rig.driver.calls["copy_batch"] == calls
    assert copy(rig, fine).wait_end().failures == []
    rig.device.close_region(region)


def test_a_context_that_is_found_lost_by_an_attach_is_lost(rig: CudaRig) -> None:
    _, region = attach(rig)
    rig.driver.lose(0)
    with pytest.raises(DeviceError, match="ILLEGAL_ADDRESS"):
        attach(rig)
    assert healthy(rig) == [False, True]
    rig.device.close_region(region)


def test_a_gpu_that_is_somebody_elses_alone_is_tried_again_with_the_next_attach(
    rig: CudaRig,
) -> None:
    with (
        rig.driver.failing("use", 46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
        pytest.raises(DeviceError, match=r"UNAVAILABLE \(46\); .* compute mode to Default"),
    ):
        attach(rig, gpu=1)
    assert healthy(rig) == [True, True]
    _, region = attach(rig, gpu=1)
    assert copy(rig, region).wait_end().failures == []


def test_a_handle_that_the_driver_cannot_explain_takes_no_gpu_from_others(rig: CudaRig) -> None:
    _, event = rig.engine.event()
    with rig.driver.failing("open_memory", 999), pytest.raises(DeviceError):
        attach(rig)
    with rig.driver.failing("open_event", 999), pytest.raises(DeviceError):
        rig.device.open_fence(event, SESSION)
    assert healthy(rig) == [True, True]
    _, region = attach(rig)
    assert copy(rig, region).wait_end().failures == []


@pytest.mark.parametrize("after", [0, 1])
def test_a_context_that_cannot_be_made_is_tried_again_with_the_next_attach(
    rig: CudaRig, after: int
) -> None:
    with (
        rig.driver.failing("create_stream", 2, "CUDA_ERROR_OUT_OF_MEMORY", after),
        pytest.raises(DeviceError, match=r"OUT_OF_MEMORY \(2\); the daemon needs some hundred MB"),
    ):
        attach(rig, gpu=1)
    assert rig.driver.streams() == []
    threads = [thread.name for thread in threading.enumerate()]
    assert not [name for name in threads if name.startswith("gpu-1-")]
    _, region = attach(rig, gpu=1)
    assert copy(rig, region).wait_end().failures == []


def test_a_gpu_that_hangs_does_not_keep_the_daemon_from_ending(
    pool: HostPool, clock: ManualClock
) -> None:
    with cuda_rig(pool, clock=clock) as rig:
        _, region = attach(rig)
        with rig.driver.hanging("copy_batch", gpu=0):
            running = copy(rig, region)
            wait_for(lambda: rig.driver.calls_waiting, "a call that hangs")
            clock.advance(WATCHDOG_S + 1)
            rig.device.close()
            assert running.ends == []
            assert len(rig.driver.mapped()) == 1  # it may still be copied to
        running.wait_end()
        threads = [t.name for t in threading.enumerate() if t.name == "cuda-watchdog"]
        assert threads == []
