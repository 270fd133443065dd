"""One GPU, as the threads of the daemon see it: they wait for it with a limit, or not at all.

    unused ---------------> in use --------------------> stuck -----------> in use
           first region,           a call does not  |          it does
           or page-locking         return in time   |
                                                    +---> lost: the driver says that the context is gone

Nothing is made before it is needed: no context, no thread, no stream. While the GPU is stuck or lost, what is queued and
what is submitted fails at once, and opening is refused; what was being copied stays so until its call returns, because
nobody else can say when the copy engine is through.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import structlog

from kvstow.server.device.base import (
    Copy,
    DeviceBusyError,
    DeviceError,
    DeviceHealth,
    Direction,
)
from kvstow.server.device.handles import CudaEventHandle, CudaHandle
from kvstow.server.device.streams import refuse

from .batches import HostChunks
from .beats import Pulse
from .context import HINTS, Context, CudaRegion
from .control import Control, ResultT
from .driver import CudaError, Driver, GpuInfo
from .fences import CudaFence
from .lane import PIECE_BYTES, Path
from .methods import Copies, choose

_log = structlog.get_logger("kvstow.device")

ASK_S = 0.5
"""How often whoever waits for page-locking is asked whether to go on."""

LIMIT_S = 20.0
"""Longer than a context takes to make on a busy machine, shorter than an engine waits for its attach."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What all GPUs of a daemon share.

    Args:
        driver: makes the calls.
        host: where the pool lies.
        pool_bytes: its size.
        pinned: whether host memory is page-locked.
        watchdog_s: how long a call may take before its GPU counts as stuck.
        clock: seconds of a clock that never goes back.
        piece_bytes: most that one batch moves.
        limit_s: how long others wait for a GPU that does not count as stuck.
        kernel: whether a kernel makes the copies; the pool is page-locked then.
    """

    driver: Driver
    host: HostChunks
    pool_bytes: int
    pinned: bool
    watchdog_s: float
    clock: Callable[[], float]
    piece_bytes: int = PIECE_BYTES
    limit_s: float = LIMIT_S
    kernel: bool = False


class Gpu:
    """One GPU. Any thread may call any method.

    Args:
        info: which.
        terms: what all have in common.
    """

    def __init__(self, info: GpuInfo, terms: Terms) -> None:
        self.info = info
        self._terms = terms
        self._pulse = Pulse(terms.watchdog_s, terms.clock)
        self._lock = threading.Lock()
        self._control: Control | None = None
        self._context: Context | None = None
        # Whoever does not ask again after a close that took long is not waited for to forget what it was.
        self._closing: WeakKeyDictionary[CudaRegion | CudaFence, Future[None]] = (
            WeakKeyDictionary()
        )
        self._late: Future[None] | None = None  # what nobody waits behind
        self._released: Future[None] | None = None
        self._ended = False

    def open_region(self, handle: CudaHandle, session: int) -> CudaRegion:
        """See `Device.open_region`."""
        return self._open(
            "map engine memory",
            lambda: self._in_use().open_region(handle, session),
            lambda region: self._in_use().close_region(region),
        )

    def close_region(self, region: CudaRegion) -> None:
        """See `Device.close_region`; may be repeated until it is closed.

        Raises:
            DeviceBusyError: it was not unmapped in time, but will be.
        """
        self._close("unmap engine memory", region, lambda: self._in_use().close_region(region))

    def open_fence(self, handle: CudaEventHandle) -> CudaFence:
        """See `Device.open_fence`."""
        return self._open(
            "open an event",
            lambda: self._in_use().open_fence(handle),
            lambda fence: self._in_use().close_fence(fence),
        )

    def close_fence(self, fence: CudaFence) -> None:
        """See `Device.close_fence`, and `close_region`."""
        self._close("close an event", fence, lambda: self._in_use().close_fence(fence))

    def submit(self, copy: Copy) -> None:
        """See `Copier.submit`."""
        context, trouble = self._context, self._pulse.trouble()
        if context is None or trouble:
            refuse(copy, f"GPU {self.info.uuid}: {trouble or 'not in use'}")
        else:
            context.submit(copy)

    def lock_pages(self, address: int, size_bytes: int, ask: Callable[[], None]) -> None:
        """See `PageLocks.lock_pages`; takes as long as it takes."""
        with self._lock:
            control = self._controlled()
        lock = partial(self._terms.driver.lock_pages, address, size_bytes)
        locking = control.post("page-lock host memory", partial(self._try, lock))
        while not wait([locking], ASK_S).done:
            ask()
        locking.result()

    def unlock_pages(self, addresses: Sequence[int], limit_s: float) -> None:
        """See `PageLocks.unlock_pages`."""
        self._call("unlock host memory", partial(self._unlock_pages, addresses), limit_s)

    def health(self) -> DeviceHealth:
        """See `Device.health`."""
        trouble = self._pulse.trouble()
        depths = {direction: self.queue_depth(direction) for direction in Direction}
        context = self._context
        copies = "" if context is None else context.copies.value
        return DeviceHealth(self.info.uuid, self.info.name, not trouble, trouble, depths, copies)

    def queue_depth(self, direction: Direction) -> int:
        """See `Copier.queue_depth`."""
        context = self._context
        return 0 if context is None else context.queue_depth(direction)

    def look_after(self) -> None:
        """Fail what is queued if the GPU is stuck or lost."""
        context, trouble = self._context, self._pulse.trouble()
        if trouble and context is not None:
            context.give_up(f"GPU {self.info.uuid}: {trouble}")

    def stop(self, limit_s: float) -> bool:
        """Make no more copies; whether the last piece ended within `limit_s` seconds. May be repeated."""
        context = self._context
        return context is None or context.stop(0.0 if self._pulse.stuck() else limit_s)

    def release(self, limit_s: float) -> bool:
        """After `stop`: close what is open, and give the context up; whether that was within `limit_s` seconds.

        May be repeated. From now on the GPU is not used again.
        """
        with self._lock:
            self._ended = True
            control = self._control
            if control is not None and self._released is None:
                self._released = control.post("give the GPU up", self._release)
        if control is None or self._released is None:
            return True
        try:
            self._released.result(limit_s)
        except (TimeoutError, CudaError):
            return False  # the end of the process gives it up
        return control.close(limit_s)

    def _open(
        self, what: str, work: Callable[[], ResultT], undo: Callable[[ResultT], None]
    ) -> ResultT:
        """Let the control thread open something."""
        trouble = self._pulse.trouble()
        if trouble:
            raise DeviceBusyError(f"GPU {self.info.uuid}: {trouble}")
        try:
            return self._call(what, work, self._terms.limit_s, undo)
        except CudaError as error:
            hint = HINTS.get(error.code, "")
            raise DeviceError(f"GPU {self.info.uuid}: {error}{hint}") from error

    def _close(self, what: str, item: CudaRegion | CudaFence, work: Callable[[], None]) -> None:
        """Let the control thread close something, once, however often it is asked to."""
        with self._lock:
            closing = self._closing.get(item)
            if closing is None:
                closing = self._closing[item] = self._controlled().post(
                    what, partial(self._try, work)
                )
        late = self._late
        behind = late is not None and late is not closing and not late.done()
        try:
            closing.result(0.0 if behind or self._pulse.stuck() else self._terms.limit_s)
        except TimeoutError:
            self._late = late if behind else closing
            raise DeviceBusyError(f"GPU {self.info.uuid} did not {what} yet") from None
        except CudaError as error:
            if not self._pulse.is_lost:  # a lost context holds nothing that could be given back
                raise DeviceError(f"GPU {self.info.uuid} did not {what}: {error}") from error
        finally:
            if closing.done():
                with self._lock:
                    self._closing.pop(item, None)

    def _call(
        self,
        what: str,
        work: Callable[[], ResultT],
        limit_s: float | None,
        undo: Callable[[ResultT], None] | None = None,
    ) -> ResultT:
        with self._lock:
            control = self._controlled()
        return control.call(what, partial(self._try, work), limit_s, undo)

    def _controlled(self) -> Control:
        """The control thread; under the lock, which is held for the start of the thread only.

        Raises:
            DeviceBusyError: the GPU is not used any more.
        """
        if self._ended:
            raise DeviceBusyError(f"GPU {self.info.uuid} is given up: the daemon ends")
        if self._control is None:
            self._control = Control(f"gpu-{self.info.number}", self._pulse.beat())
        return self._control

    # What follows is called by the control thread.

    def _try(self, work: Callable[[], ResultT]) -> ResultT:
        try:
            self._terms.driver.use(self.info.number)
            return work()
        except CudaError as error:
            self._pulse.failed(error)
            raise

    def _in_use(self) -> Context:
        """The context, made if need be."""
        if self._context is None:
            terms, number = self._terms, self.info.number
            method = choose(terms.driver, self.info, pinned=terms.pinned, kernel=terms.kernel)
            host = method.cut(terms.host)
            copies = Copies(terms.driver, self.info.uuid, host, method)
            path = Path(terms.driver, number, host, terms.pool_bytes, copies, terms.piece_bytes)
            self._context = Context(path, pinned=terms.pinned, pulse=self._pulse)
            _log.info("a GPU is in use", gpu=self.info.uuid, copies=method.value)
        return self._context

    def _unlock_pages(self, addresses: Sequence[int]) -> None:
        for address in addresses:
            self._terms.driver.unlock_pages(address)

    def _release(self) -> None:
        if self._context is not None:
            self._context.destroy()
        self._terms.driver.release(self.info.number)
