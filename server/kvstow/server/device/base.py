"""What a device offers: engine memory opened as regions, and copies that it makes on its own threads.

Decided here: the protocols and the vocabulary between the daemon and a device. Not decided here: which blocks are
copied (the ledger), where their bytes lie (`core.spans`), when memory may be closed (the daemon).
No method may be called under the daemon's lock, and a device never takes that lock itself except through the
callbacks of a `Copy`, which it calls from its own threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kvstow.server.core.spans import Spans


class DeviceError(Exception):
    """Engine or host memory could not be opened, grown, locked or closed; the message says what, where and which number."""


class Direction(Enum):
    """Where a copy goes: a store gathers engine memory into the host pool, a load scatters it back."""

    STORE = "store"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class SharedMemoryHandle:
    """Engine memory that lives in a file both processes can open.

    Args:
        path: absolute path of the file; `/proc/PID/fd/N` names a descriptor of another process.
        offset_bytes: where the region starts in the file.
        size_bytes: length of the region.
    """

    path: str
    offset_bytes: int
    size_bytes: int


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
    def size_bytes(self) -> int:
        """Length of the region."""
        ...

    @property
    def origin(self) -> "Origin":
        """Which bytes these are: regions that were opened by different handles may share some."""
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
    """

    session: int
    transfer: int
    rank: int
    direction: Direction
    regions: Sequence[Region]
    spans: Spans
    owner: CopyOwner


class Copier(Protocol):
    """Takes copies and makes them, loads before stores, in pieces, on threads of its own."""

    def submit(self, copy: Copy) -> None:
        """Queue a copy; returns at once and never refuses: after `close` the copy starts and ends as failed."""
        ...

    def queue_depth(self, direction: Direction) -> int:
        """Copies of one direction that were submitted and have not ended."""
        ...


class Device(Copier, Protocol):
    """One kind of engine memory."""

    def open_region(self, handle: SharedMemoryHandle) -> Region:
        """Map engine memory.

        Raises:
            DeviceError: it does not exist, is shorter than the handle says, or may not be opened.
        """
        ...

    def close_region(self, region: Region) -> None:
        """Unmap engine memory; the caller has made sure that no copy touches it any more.

        Raises:
            DeviceError: the region is not open.
        """
        ...

    def close(self) -> None:
        """Stop the threads after the pieces they are in, and unmap what is still open.

        What was not copied by then ends as failed. Copies that are to be finished must be waited for before.
        """
        ...
