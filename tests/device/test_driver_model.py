"""The model of the CUDA driver finds what CUDA leaves undefined: each of its rules, broken.

Who may call at all: `test_driver_calls`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

from kvstow.server.core.spans import Offsets
from kvstow.server.device.base import Direction
from kvstow.server.device.cuda.batches import Batch, Rows
from kvstow.server.device.cuda.driver import CudaError, Driver
from support.driver_model import DriverModel
from support.driver_model_kernels import host_bytes
from support.driver_model_world import Allocation, EngineProcess, Event, ModelError, World
from support.waiting import DEADLINE_S, wait_for

SIZE = 4096


@dataclass(frozen=True)
class Scene:
    """A driver with one mapping, one stream and one event, a page of locked memory, and the engine behind it."""

    driver: DriverModel
    engine: EngineProcess
    allocation: Allocation
    address: int
    stream: int
    event: int
    exported: Event
    opened: int
    host: int

    def copy(self, device: int = 0, host: int = 0, size: int = 64) -> None:
        def column(value: int) -> Offsets:
            return np.array([value], dtype=np.int64)

        batch = Batch(
            Direction.STORE, column(self.address + device), column(self.host + host), column(size)
        )
        self.driver.copy_batch(batch, self.stream)


@pytest.fixture
def page() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.zeros(SIZE, dtype=np.uint8)


@pytest.fixture
def scene(page: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> Scene:
    world = World(gpu_count=2)
    driver, engine = DriverModel(world, any_thread=True), EngineProcess(world)
    driver.use(0)
    allocation, (exported, handle) = engine.allocate(SIZE), engine.event()
    driver.lock_pages(page.ctypes.data, SIZE)
    return Scene(
        driver,
        engine,
        allocation,
        driver.open_memory(allocation.handle),
        driver.create_stream(),
        driver.create_event(),
        exported,
        driver.open_event(handle.event),
        page.ctypes.data,
    )


def copied_then(act: Callable[[Scene], None]) -> Callable[[Scene], None]:
    def run(scene: Scene) -> None:
        scene.copy()
        act(scene)

    return run


def close_twice(scene: Scene) -> None:
    scene.driver.close_memory(scene.address)
    scene.driver.close_memory(scene.address)


def copy_after_unmapping(scene: Scene) -> None:
    scene.driver.close_memory(scene.address)
    scene.copy()


def copy_after_unlocking(scene: Scene) -> None:
    scene.driver.unlock_pages(scene.host)
    scene.copy()


def copy_on_a_destroyed_stream(scene: Scene) -> None:
    scene.driver.destroy_stream(scene.stream)
    scene.copy()


def unmap_on_another_gpu(scene: Scene) -> None:
    scene.driver.use(1)
    scene.driver.close_memory(scene.address)


def record_on_the_stream_of_another_gpu(scene: Scene) -> None:
    scene.driver.use(1)
    stream = scene.driver.create_stream()
    scene.driver.use(0)
    scene.driver.record_event(scene.event, stream)


def use_a_destroyed_event(scene: Scene) -> None:
    scene.driver.destroy_event(scene.event)
    scene.driver.record_event(scene.event, scene.stream)


def ask_for_an_event_its_owner_destroyed(scene: Scene) -> None:
    scene.engine.record(scene.exported, scene.engine.stream())
    scene.exported.destroyed = True
    scene.driver.event_reached(scene.opened)


def run_kernel(
    scene: Scene, source: int | None = None, target: int | None = None, gpu: int = 0
) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """From the engine's memory to the host, unless it is said otherwise; the kernel, and what it was told."""
    driver = scene.driver
    driver.use(gpu)
    kernel = driver.load_kernel()
    driver.use(0)
    orders = host_bytes(scene.host, SIZE).view(np.int64)
    orders[:3] = (
        scene.address if source is None else source,
        scene.host + 64 if target is None else target,
        64,
    )
    driver.run_kernel(kernel, scene.host, 1, scene.stream)
    return kernel, orders


def ran_then(act: Callable[[Scene], None]) -> Callable[[Scene], None]:
    def run(scene: Scene) -> None:
        run_kernel(scene)
        act(scene)

    return run


def tell_the_kernel_something_else(scene: Scene) -> None:
    _, orders = run_kernel(scene)
    orders[2] = 63
    scene.driver.wait_stream(scene.stream)


def run_an_unloaded_kernel(scene: Scene) -> None:
    kernel, _ = run_kernel(scene)
    scene.driver.wait_stream(scene.stream)
    scene.driver.unload_kernel(kernel)
    scene.driver.run_kernel(kernel, scene.host, 1, scene.stream)


def map_on_another_gpu(scene: Scene) -> None:
    scene.driver.use(1)
    scene.driver.open_memory(scene.engine.allocate(SIZE, gpu=0).handle)


def copy_from_another_gpu(scene: Scene) -> None:
    scene.driver.use(1)
    replace(scene, stream=scene.driver.create_stream()).copy()


def copy_on_the_stream_of_another_gpu(scene: Scene) -> None:
    scene.driver.use(1)
    stream = scene.driver.create_stream()
    scene.driver.use(0)
    replace(scene, stream=stream).copy()


def copy_rows_that_overlap(scene: Scene) -> None:
    one, pitch = np.array([1], dtype=np.int64), np.array([63], dtype=np.int64)
    rows = Rows(
        Direction.STORE, one * scene.address, one * scene.host, pitch, pitch, one * 64, one * 2
    )
    scene.driver.copy_rows(rows, scene.stream)


def batch_where_there_are_none(scene: Scene) -> None:
    scene.driver._batched = False
    scene.copy()


BROKEN: dict[str, Callable[[Scene], None]] = {
    "outside every mapping": lambda scene: scene.copy(device=SIZE - 63),
    "before every mapping": lambda scene: scene.copy(device=-1),
    "outside what is page-locked": lambda scene: scene.copy(host=SIZE - 63),
    "mapped twice": lambda s: (s.driver.open_memory(s.allocation.handle), None)[1],
    "unmapped twice": close_twice,
    "copied after it was unmapped": copy_after_unmapping,
    "copied after it was unlocked": copy_after_unlocking,
    "stream that was destroyed": copy_on_a_destroyed_stream,
    "unmapped in flight": copied_then(lambda scene: scene.driver.close_memory(scene.address)),
    "unlocked in flight": copied_then(lambda scene: scene.driver.unlock_pages(scene.host)),
    "stream destroyed in flight": copied_then(lambda s: s.driver.destroy_stream(s.stream)),
    "locked twice": lambda scene: scene.driver.lock_pages(scene.host, SIZE),
    "never recorded, waited for": lambda scene: scene.driver.wait_event(scene.event),
    "never recorded, asked": lambda s: (s.driver.event_reached(s.opened), None)[1],
    "destroyed event": use_a_destroyed_event,
    "event destroyed by its owner": ask_for_an_event_its_owner_destroyed,
    "mapped on another GPU": map_on_another_gpu,
    "unmapped on another GPU": unmap_on_another_gpu,
    "recorded on a stream of another GPU": record_on_the_stream_of_another_gpu,
    "context given up with things in it": lambda scene: scene.driver.release(0),
    "memory of another GPU": copy_from_another_gpu,
    "stream of another GPU": copy_on_the_stream_of_another_gpu,
    "rows that overlap": copy_rows_that_overlap,
    "batch where there are none": batch_where_there_are_none,
    "kernel of another context": lambda scene: (run_kernel(scene, gpu=1), None)[1],
    "kernel outside every mapping": lambda s: (run_kernel(s, s.address + SIZE - 63), None)[1],
    "kernel outside what is page-locked": lambda s: (
        run_kernel(s, target=s.host + SIZE - 63),
        None,
    )[1],
    "kernel from host to host": lambda s: (run_kernel(s, source=s.host + 128), None)[1],
    "kernel told in memory that moves": lambda s: s.driver.run_kernel(
        s.driver.load_kernel(), s.host + SIZE, 1, s.stream
    ),
    "kernel told something else in flight": tell_the_kernel_something_else,
    "kernel unloaded in flight": lambda s: s.driver.unload_kernel(run_kernel(s)[0]),
    "kernel that was unloaded": run_an_unloaded_kernel,
    "unmapped under a kernel": ran_then(lambda s: s.driver.close_memory(s.address)),
    "unlocked under a kernel": ran_then(lambda s: s.driver.unlock_pages(s.host)),
    "freed while mapped": lambda scene: scene.engine.free(scene.allocation),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found(scene: Scene, name: str) -> None:
    with pytest.raises(ModelError):
        BROKEN[name](scene)
    if name != "freed while mapped":  # the engine's mistake, not the daemon's
        with pytest.raises(AssertionError):
            scene.driver.check()


def test_memory_of_the_own_process_cannot_be_opened(scene: Scene) -> None:
    own = scene.driver.own_process.allocate(SIZE)
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_CONTEXT"):
        scene.driver.open_memory(own.handle)
    scene.driver.check()


def test_a_copy_is_made_when_its_stream_comes_to_it(scene: Scene) -> None:
    driver: Driver = scene.driver
    scene.allocation.view[:64] = 7
    (stream,) = scene.driver.streams()
    with scene.driver.world.held(stream):
        scene.copy()
        driver.record_event(scene.event, scene.stream)
        assert not driver.event_reached(scene.event)
        assert not host_bytes(scene.host, 64).any()
    driver.wait_event(scene.event)
    assert driver.event_reached(scene.event)
    assert (host_bytes(scene.host, 64) == 7).all()
    driver.close_memory(scene.address)
    scene.engine.free(scene.allocation)


@pytest.mark.parametrize("waiting", ["wait_stream", "wait_event"])
def test_who_waits_for_a_copy_is_told_that_its_context_is_lost(scene: Scene, waiting: str) -> None:
    driver: Driver = scene.driver
    waits = {
        "wait_stream": lambda: driver.wait_stream(scene.stream),
        "wait_event": lambda: driver.wait_event(scene.event),
    }

    def wait() -> None:
        driver.use(0)
        waits[waiting]()

    (stream,) = scene.driver.streams()
    with ThreadPoolExecutor(1) as others, scene.driver.world.held(stream):
        scene.copy()
        driver.record_event(scene.event, scene.stream)
        waiter = others.submit(wait)
        wait_for(lambda: scene.driver.calls[waiting], "the call")
        scene.driver.lose(0)
        with pytest.raises(CudaError, match="ILLEGAL_ADDRESS"):
            waiter.result(DEADLINE_S)


def test_what_is_left_open_is_found(scene: Scene) -> None:
    with pytest.raises(AssertionError, match="still there"):
        scene.driver.check_given_back()
