"""Which calls of the driver make the copies of one GPU.

Batches are the fastest way to the copy engines. Drivers before CUDA 12.8 have none, and one that has them may refuse them
when they come: because it does not support them here, or because it takes something in them for wrong. So a batch that is
refused is made of rows, and if the driver takes those, so are all that follow. To issue copies a second time is harmless:
what of the batch was queued all the same is on the stream before the rows, the sources are what they were, and nobody else
touches the targets before the transfer has ended.

The kernel is there for who asks for it. It copies on multiprocessors, which the engine then has not.

A copy is over when its event was reached. After an error nobody knows how much of it is on the stream, so the stream is
waited for; if even that fails the context is gone, and with it whatever was copying.
"""

import math
import mmap
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import structlog

from kvstow.server.core.spans import Offsets
from kvstow.server.device.base import DeviceError, Direction

from .batches import Batch, HostChunks, as_rows
from .driver import INVALID_VALUE, NOT_SUPPORTED, CudaError, Driver, GpuInfo

_log = structlog.get_logger("kvstow.device")

ORDER_BYTES = 16 << 10
"""Most that one block of the kernel's threads copies at a time, so that all of them have something to do."""

MOST_ORDERS = 8192
"""Of one run of the kernel."""


class Method(Enum):
    """How copies are made."""

    BATCHES = "batches"
    ROWS = "rows"
    KERNEL = "kernel"

    def cut(self, host: HostChunks) -> HostChunks:
        """Where copies are to be cut so that they can be made in this way."""
        if self is not Method.KERNEL:
            return host
        return replace(host, chunk_bytes=math.gcd(host.chunk_bytes, ORDER_BYTES))


def choose(driver: Driver, gpu: GpuInfo, *, pinned: bool, kernel: bool) -> Method:
    """How the copies of a GPU are to be made.

    Args:
        driver: makes the calls; the GPU is current.
        gpu: which.
        pinned: whether the pool is page-locked.
        kernel: whether a kernel is asked for.

    Raises:
        DeviceError: the GPU cannot have the kernel that is asked for.
    """
    if not kernel:
        batched = pinned and driver.takes_batches(gpu.number)
        return Method.BATCHES if batched else Method.ROWS
    if not driver.reaches_locked_memory(gpu.number):
        raise DeviceError(
            f"GPU {gpu.uuid} does not have page-locked memory at its addresses in the host, as copies by a kernel need it:"
            " set cuda_copies to dma"
        )
    return Method.KERNEL


@dataclass(frozen=True, slots=True, eq=False)
class Tools:
    """What a thread needs that makes copies.

    Args:
        event: recorded behind them.
        orders: page-locked memory in which the kernel is told what to copy; empty if there is none.
    """

    event: int
    orders: Offsets


class Copies:
    """Makes the copies of one GPU; for threads that have it current.

    Args:
        driver: makes the calls.
        gpu: UUID of the GPU.
        host: where the pool lies.
        method: how copies are made, until the driver refuses it.

    Attributes:
        method: how they are made now.
    """

    def __init__(self, driver: Driver, gpu: str, host: HostChunks, method: Method) -> None:
        self.method = method
        self._driver = driver
        self._gpu = gpu
        self._host = host
        self._kernel: int | None = None
        self._accepted: set[Direction] = set()
        self._changing = threading.Lock()

    def open(self) -> None:
        """Get ready, before the first copy."""
        if self.method is Method.KERNEL:
            self._kernel = self._driver.load_kernel()

    def close(self) -> None:
        """After the last copy: undo `open`."""
        if self._kernel is not None:
            self._driver.unload_kernel(self._kernel)

    def make_tools(self) -> Tools:
        """Make what one thread needs."""
        event, orders = self._driver.create_event(), np.empty(0, dtype=np.int64)
        if self.method is Method.KERNEL:
            orders = np.frombuffer(mmap.mmap(-1, 3 * 8 * MOST_ORDERS), dtype=np.int64)
            try:
                self._driver.lock_pages(int(orders.ctypes.data), orders.nbytes)
            except CudaError:
                self._driver.destroy_event(event)
                raise
        return Tools(event, orders)

    def destroy_tools(self, tools: Tools) -> None:
        """Give them back."""
        self._driver.destroy_event(tools.event)
        if len(tools.orders):
            self._driver.unlock_pages(int(tools.orders.ctypes.data))

    def copy(self, batch: Batch, stream: int, tools: Tools) -> None:
        """Copy, and return when that is done.

        Raises:
            CudaError: of the batch nothing may be relied on; nothing of it is being copied any more.
        """
        issue: dict[Method, Callable[[Batch, int, Tools], None]] = {
            Method.BATCHES: self._copy_batch,
            Method.ROWS: self._copy_rows,
            Method.KERNEL: self._run_kernel,
        }
        try:
            issue[self.method](batch, stream, tools)
        except CudaError:
            self._driver.wait_stream(stream)
            raise

    def _copy_batch(self, batch: Batch, stream: int, tools: Tools) -> None:
        try:
            self._driver.copy_batch(batch, stream)
        except CudaError as error:
            if not self._refuses_batches(error, batch.direction):
                raise
            self._copy_rows(batch, stream, tools)
            self._do_without_batches(error)
        else:
            self._accepted.add(batch.direction)
            self._wait(stream, tools)

    def _copy_rows(self, batch: Batch, stream: int, tools: Tools) -> None:
        self._driver.copy_rows(as_rows(batch, self._host), stream)
        self._wait(stream, tools)

    def _run_kernel(self, batch: Batch, stream: int, tools: Tools) -> None:
        assert self._kernel is not None, "copies before the kernel was loaded"
        for first in range(0, len(batch), MOST_ORDERS):
            part = slice(first, first + MOST_ORDERS)
            count = len(batch.size[part])
            orders = tools.orders[: 3 * count]  # nobody reads the last ones any more
            np.concatenate(
                (batch.sources[part], batch.targets[part], batch.size[part]), out=orders
            )
            self._driver.run_kernel(self._kernel, int(orders.ctypes.data), count, stream)
            self._wait(stream, tools)

    def _wait(self, stream: int, tools: Tools) -> None:
        """Wait for what is on the stream now."""
        self._driver.record_event(tools.event, stream)
        self._driver.wait_event(tools.event)

    def _refuses_batches(self, error: CudaError, direction: Direction) -> bool:
        """Whether an error may be one of batches as such: those of this direction were never taken, or are not supported."""
        unheard_of = error.code == INVALID_VALUE and direction not in self._accepted
        return unheard_of or error.code == NOT_SUPPORTED

    def _do_without_batches(self, error: CudaError) -> None:
        """Say so, once."""
        with self._changing:
            before, self.method = self.method, Method.ROWS
        if before is not Method.ROWS:
            _log.warning(
                "the driver refuses copies in batches: they are made in rows, which is slower for small blocks",
                gpu=self._gpu,
                reason=str(error),
            )
