"""Who may call the model of the CUDA driver: the device's own threads, with a GPU made current, never under the daemon's lock."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from kvstow.server.device.base import Direction
from kvstow.server.device.cuda.batches import Batch, Rows
from kvstow.server.device.cuda.driver import Driver
from support.driver_model import DriverModel
from support.driver_model_world import ModelError, World

EMPTY = np.empty(0, dtype=np.int64)
CALLS: dict[str, Callable[[Driver], object]] = {
    "use": lambda driver: driver.use(0),
    "release": lambda driver: driver.release(0),
    "takes_batches": lambda driver: driver.takes_batches(0),
    "reaches_locked_memory": lambda driver: driver.reaches_locked_memory(0),
    "load_kernel": lambda driver: driver.load_kernel(),
    "unload_kernel": lambda driver: driver.unload_kernel(1),
    "run_kernel": lambda driver: driver.run_kernel(1, 2, 3, 4),
    "open_memory": lambda driver: driver.open_memory(bytes(64)),
    "close_memory": lambda driver: driver.close_memory(1),
    "memory_bytes": lambda driver: driver.memory_bytes(1),
    "create_stream": lambda driver: driver.create_stream(),
    "destroy_stream": lambda driver: driver.destroy_stream(1),
    "wait_stream": lambda driver: driver.wait_stream(1),
    "copy_batch": lambda driver: driver.copy_batch(Batch(Direction.LOAD, *[EMPTY] * 3), 1),
    "copy_rows": lambda driver: driver.copy_rows(Rows(Direction.LOAD, *[EMPTY] * 6), 1),
    "create_event": lambda driver: driver.create_event(),
    "destroy_event": lambda driver: driver.destroy_event(1),
    "record_event": lambda driver: driver.record_event(1, 2),
    "wait_event": lambda driver: driver.wait_event(1),
    "open_event": lambda driver: driver.open_event(bytes(64)),
    "event_reached": lambda driver: driver.event_reached(1),
    "lock_pages": lambda driver: driver.lock_pages(4096, 4096),
    "unlock_pages": lambda driver: driver.unlock_pages(4096),
}
"""Every call that a driver may keep waiting."""

OF_NO_CONTEXT = ("use", "release", "takes_batches", "reaches_locked_memory")


def test_no_call_is_left_out() -> None:
    said = {name for name in vars(Driver) if not name.startswith("_")}
    assert said == {*CALLS, "gpus"}


@pytest.mark.parametrize("name", [name for name in CALLS if name not in OF_NO_CONTEXT])
def test_a_call_needs_a_current_gpu(name: str) -> None:
    driver = DriverModel(World(), any_thread=True)
    with pytest.raises(ModelError, match=f"^{name} was called in thread .* no GPU is current"):
        CALLS[name](driver)


@pytest.mark.parametrize("name", CALLS)
def test_no_thread_but_the_devices_own_may_call(name: str) -> None:
    with pytest.raises(ModelError, match=f"^{name} was called by thread"):
        CALLS[name](DriverModel(World()))


@pytest.mark.parametrize("name", CALLS)
def test_no_call_may_be_made_under_the_daemons_lock(name: str) -> None:
    driver = DriverModel(World(), any_thread=True)
    driver.use(0)
    driver.holds_lock = lambda: True
    with pytest.raises(ModelError, match=f"^{name} was called under the daemon's lock"):
        CALLS[name](driver)


def test_a_gpu_is_current_in_the_thread_that_made_it_so_and_in_no_other() -> None:
    driver = DriverModel(World(), any_thread=True)
    driver.use(0)
    driver.create_stream()
    found: list[BaseException] = []

    def call() -> None:
        try:
            driver.create_stream()
        except ModelError as error:
            found.append(error)

    other = threading.Thread(target=call)
    other.start()
    other.join()
    assert [str(error).endswith("in which no GPU is current") for error in found] == [True]
