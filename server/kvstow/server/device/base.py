"""What a device offers: engine memory opened as regions, and copies that it makes on its own threads.

Decided here: the protocols and the vocabulary between the daemon and a device. Not decided here: which blocks are
copied (the ledger), where their bytes lie (`core.spans`), when memory may be closed (the daemon).
No method may be called under the daemon's lock, and a device never takes that lock itself except through the
callbacks of a `Copy`, which it calls from its own threads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kvstow.server.core.spans import Spans

from .handles import CudaEventHandle, Handle

CLOSE_S = 15.0
"""How long all devices together may take to close."""


class DeviceError(Exception):
    """Engine or host memory could not be opened, grown, locked or closed; the message says what, where and which number."""


class CudaOffError(DeviceError):
    """Device memory was named, and the daemon runs without CUDA; the message says why it does."""


class DeviceBusyError(DeviceError):
    """A device did not answer in time, or has not let go of the same memory of an earlier session: later it may."""


class UnknownGpuError(DeviceError):
    """A GPU was named that the daemon does not see.

    Args:
        gpu: UUID of the GPU.
        visible: UUIDs of those that it sees.
    """

    def __init__(self, gpu: str, visible: Sequence[str]) -> None:
        super().__init__(f"the daemon does not see GPU {gpu}, only {', '.join(visible) or 'none'}")
        self.gpu = gpu
        self.visible = tuple(visible)


class Direction(Enum):
    """Where a copy goes: a store gathers engine memory into the host pool, a load scatters it back."""

    STORE = "store"
    LOAD = "load"


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """Bytes of some memory, by whatever handle it was opened; sorted, those of one memory stand together, by their start.

    Args:
        memory: numbers that tell this memory from all other memory of the device.
        start, end: from which byte of it to before which.
    """

    memory: tuple[int, ...]
    start: int
    end: int


class Region(Protocol):
    """Opened engine memory; closing is the device's business and happens after its last copy."""

    @property
    def device(self) -> str:
        """Which device it is of: `HOST`, or the UUID of the GPU."""
        ...

    @property
    def size_bytes(self) -> int:
        """Length of the region."""
        ...

    @property
    def origin(self) -> "Origin":
        """Which bytes these are: regions that were opened by different handles may share some."""
        ...


class Fence(Protocol):
    """An opened event of an engine: reached when the device work that the engine had queued before recording it is done.

    An engine records a fence before it names it, and not again before the report of the transfer that names it.
    """

    @property
    def device(self) -> str:
        """Which device it is of, as its handle said."""
        ...


class CopyOwner(Protocol):
    """Who ordered a copy; the device calls these from its threads, each without holding a lock of its own.

    For every submitted copy `start` is called once, and if it says True, `end` is called once, after everything else.
    None of these may raise: the thread that calls them makes the copies of others too.
    """

    def start(self) -> bool:
        """The first piece is about to be copied.

        False: the owner has settled the copy already. It is forgotten without being copied, and `end` is not called.
        """
        ...

    def abandoned(self) -> bool:
        """True once the result is wanted by nobody: pieces not yet begun are skipped, and their blocks end as failed."""
        ...

    def end(
        self, rank: int, failures: Sequence[tuple[int, str]], copied_bytes: int, seconds: float
    ) -> None:
        """The copy of this rank has physically ended: nothing will touch its memory any more.

        Args:
            rank: the rank of the copy.
            failures: (index of the block in the copy's `Spans`, reason) of each block that was not copied, or not
                wholly, in rising order, each block once.
            copied_bytes: bytes that were copied.
            seconds: time from the start to the end, waiting for the pieces of other copies included.
        """
        ...


@dataclass(frozen=True, slots=True)
class Copy:
    """One rank's share of a transfer.

    Args:
        session: number of the session, for fault rules and logs.
        transfer: id of the transfer within it.
        rank: which rank's memory is copied.
        direction: store or load.
        regions: opened engine memory; `spans.region` indexes it.
        spans: what to copy; offsets are bytes into the named region and into the host pool.
        owner: told of the start and of the end.
        fence: the copy neither starts nor touches any memory before this is reached, unless its owner has abandoned it;
            None: it may at once.
    """

    session: int
    transfer: int
    rank: int
    direction: Direction
    regions: Sequence[Region]
    spans: Spans
    owner: CopyOwner
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """How a device fares.

    Args:
        device: `HOST`, or the UUID of the GPU.
        name: for people: `host memory`, or the product name of the GPU.
        healthy: whether it answers in its time.
        trouble: what is wrong, and since when; empty when healthy.
        queue_depths: copies of each direction that were submitted and have not ended, those that wait for a fence
            included.
        copies: how they are made; empty if the device is not in use yet.
    """

    device: str
    name: str
    healthy: bool
    trouble: str
    queue_depths: Mapping[Direction, int]
    copies: str = ""


class Copier(Protocol):
    """Takes copies and makes them, loads before stores, in pieces, on threads of its own."""

    def submit(self, copy: Copy) -> None:
        """Queue a copy; returns at once and never refuses: after `close` the copy starts and ends as failed."""
        ...

    def queue_depth(self, direction: Direction) -> int:
        """Copies of one direction that were submitted and have not ended."""
        ...


class Device(Copier, Protocol):
    """One kind of engine memory, or several."""

    def open_region(self, handle: Handle, session: int) -> Region:
        """Map engine memory.

        Args:
            handle: which memory.
            session: number of the session that it is opened for.

        Raises:
            CudaOffError, UnknownGpuError, DeviceBusyError: see there.
            DeviceError: it does not exist, is shorter than the handle says, or may not be opened.
        """
        ...

    def close_region(self, region: Region) -> None:
        """Unmap engine memory; the caller has made sure that no copy touches it any more.

        Raises:
            DeviceBusyError: the device does not answer. It will be unmapped when it does; ask again to learn of that.
            DeviceError: the region is not open.
        """
        ...

    def open_fence(self, handle: CudaEventHandle, session: int) -> Fence:
        """Open an event of the engine.

        Args:
            handle: which event.
            session: number of the session that it is opened for.

        Raises:
            CudaOffError, UnknownGpuError, DeviceBusyError: see there.
            DeviceError: it cannot be opened.
        """
        ...

    def close_fence(self, fence: Fence) -> None:
        """Close an event; the caller has made sure that no copy waits for it any more.

        Raises:
            DeviceBusyError: see `close_region`.
            DeviceError: the fence is not open.
        """
        ...

    def health(self) -> Sequence[DeviceHealth]:
        """How each device fares; cheap, and answered at once even by a device that hangs."""
        ...

    def close(self, limit_s: float = CLOSE_S) -> None:
        """Stop the threads after the pieces they are in, and unmap what is still open.

        What was not copied by then ends as failed. Copies that are to be finished must be waited for before.

        Args:
            limit_s: how long to wait for calls that may hang, all together; what they keep, the end of the process gives
                back.
        """
        ...
