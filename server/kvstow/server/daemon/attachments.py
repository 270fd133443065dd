"""Which memory and which fences of which rank are open, and when they may be closed.

They are opened and closed without the lock, because that may take long; everything else here is done under it. An
attachment is closed after its last copy and only then, also when its rank has detached or its session is long gone:

    open ---------> attached -------> detached -------> closable --------> closed
           attach            detach,           its last           by the
                             end of session    copy has ended     closer thread
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from kvstow.server.core.errors import BooksError, FenceOutOfRange, RegionInvalid
from kvstow.server.core.requests import GroupMemory, Process
from kvstow.server.core.types import SessionId
from kvstow.server.device.base import (
    Device,
    DeviceBusyError,
    DeviceError,
    Fence,
    Origin,
    Region,
)
from kvstow.server.device.handles import RankHandles

from .opening import opened_memory
from .processes import is_ending


@dataclass(slots=True, eq=False)
class MappedMemory:
    """A rank's memory, mapped.

    Args:
        device: which device it is of.
        regions: as `Segment.region` indexes them.
        groups: where the blocks lie.
        fences: the rank's ring.
    """

    device: str
    regions: Sequence[Region]
    groups: tuple[GroupMemory, ...]
    fences: Sequence[Fence]

    @property
    def origins(self) -> Sequence[Origin]:
        """Which bytes the regions are."""
        return [region.origin for region in self.regions]


@dataclass(slots=True, eq=False)
class Attachment:
    """The memory of one rank of one session.

    Args:
        session, rank: whose it is.
        memory: what is mapped.
        process: the rank's, if it is watched.
        copy_count: copies in the air that touch it.
        detached: no new copy will.
        still_open: closes what of it is; for the closer thread alone.
    """

    session: SessionId
    rank: int
    memory: MappedMemory
    process: Process | None
    copy_count: int = 0
    detached: bool = False
    still_open: list[Callable[[], None]] = field(default_factory=list)

    def is_ending(self) -> bool:
        """Whether the rank's process is known to have begun to end; reads a file, so not under the lock.

        Its end stops its kernels, and CUDA does not say how the fences behind them read then. A fence was reached if it
        read so and the process had not begun to end after that.
        """
        return self.process is not None and is_ending(self.process)


@dataclass(slots=True)
class Attachments:
    """All of them.

    Args:
        device: opens and closes the memory.
        wake_closer: called under the lock when memory may now be closed; it only sets an event.
    """

    device: Device
    wake_closer: Callable[[], None]
    _attached: dict[SessionId, dict[int, Attachment]] = field(default_factory=dict)
    _detached: set[Attachment] = field(default_factory=set)

    @contextmanager
    def mapped(self, session: SessionId, memory: RankHandles) -> Iterator[MappedMemory]:
        """Map a rank's memory and open its fences; all is closed again if the block raises. Without the lock.

        Raises:
            Refusal: it cannot be opened; see `opening`.
        """
        with opened_memory(self.device, session, memory) as (regions, fences):
            yield MappedMemory(memory.handles[0].device, regions, memory.groups, fences)

    def check_apart(self, session: SessionId, rank: int, memory: MappedMemory) -> None:
        """No other rank of the session has attached any of these bytes.

        Raises:
            RegionInvalid: one has.
        """
        ranks = {found.rank: found.memory.origins for found in self.of(session).values()}
        shared = _first_shared({**ranks, rank: memory.origins}, rank)
        if shared is not None:
            region, other_rank, other_region = shared
            raise RegionInvalid(
                f"region {region} of rank {rank} shares bytes with region {other_region} of rank {other_rank}",
                rank=rank,
                region=region,
                other_rank=other_rank,
                other_region=other_region,
            )

    def enter(
        self, session: SessionId, rank: int, memory: MappedMemory, process: Process | None
    ) -> None:
        """The rank has attached; its process is named if it is watched."""
        self._attached.setdefault(session, {})[rank] = Attachment(session, rank, memory, process)

    def of(self, session: SessionId) -> Mapping[int, Attachment]:
        """What the ranks of a session have attached."""
        return dict(self._attached.get(session, {}))

    def check_fence(self, session: SessionId, fence: int | None) -> None:
        """Every rank that has attached has attached this fence.

        Raises:
            FenceOutOfRange: one has not.
        """
        for rank, found in self._attached.get(session, {}).items():
            count = len(found.memory.fences)
            if fence is not None and fence >= count:
                raise FenceOutOfRange(
                    f"fence {fence} is none of the {count} that rank {rank} has attached",
                    fence=fence,
                    rank=rank,
                    fence_count=count,
                )

    def is_on(self, session: SessionId, devices: frozenset[str]) -> bool:
        """Whether a rank's memory is of one of these devices."""
        ranks = self._attached.get(session, {})
        return any(found.memory.device in devices for found in ranks.values())

    def detach(self, session: SessionId, rank: int) -> bool:
        """The rank gives its memory up; False if it has none attached."""
        ranks = self._attached.get(session, {})
        attachment = ranks.pop(rank, None)
        if attachment is None:
            return False
        if not ranks:
            del self._attached[session]
        attachment.detached = True
        memory = attachment.memory
        attachment.still_open = [
            *(partial(self.device.close_fence, fence) for fence in memory.fences),
            *(partial(self.device.close_region, region) for region in memory.regions),
        ]
        self._detached.add(attachment)
        self.wake_closer()
        return True

    def detach_all(self, session: SessionId) -> None:
        """The session has ended."""
        for rank in list(self._attached.get(session, {})):
            self.detach(session, rank)

    def is_closed(self, session: SessionId, rank: int) -> bool:
        """Nothing that the rank has detached is still open."""
        return not any((found.session, found.rank) == (session, rank) for found in self._detached)

    def closable(self) -> list[Attachment]:
        """Detached memory that no copy touches any more."""
        return [found for found in self._detached if not found.copy_count]

    def close(self, attachment: Attachment) -> None:
        """Close detached memory and its fences. Without the lock, by the closer thread alone.

        Raises:
            DeviceBusyError: not all could be closed yet; to be called again.
            DeviceError: something was not open, or cannot be closed; the rest is closed all the same.
        """
        failed: DeviceError | None = None
        while attachment.still_open:
            try:
                attachment.still_open[-1]()
            except DeviceBusyError:
                raise
            except DeviceError as error:
                failed = error
            attachment.still_open.pop()
        if failed is not None:
            raise failed

    def forget(self, attachment: Attachment) -> None:
        """Detached memory was closed."""
        self._detached.remove(attachment)

    def check(self, copy_counts: Mapping[Attachment, int]) -> None:
        """Compare with a recount of the copies in the air.

        Raises:
            BooksError: they differ.
        """
        attached = [found for ranks in self._attached.values() for found in ranks.values()]
        for found in [*attached, *self._detached]:
            counted = copy_counts.get(found, 0)
            if found.copy_count != counted:
                raise BooksError(
                    f"memory of rank {found.rank} of session {found.session} is touched by {counted} copies, not"
                    f" by {found.copy_count}"
                )


def _first_shared(ranks: Mapping[int, Sequence[Origin]], rank: int) -> tuple[int, int, int] | None:
    """Find bytes that a rank has in common with another; None if there are none.

    Walks all regions by their start. One that begins before the furthest end so far, of the rank or of all others, shares
    bytes with the region that reaches so far.

    Returns:
        Number of the rank's region, the other rank, and number of the other's region.
    """
    everything = sorted((found, who, at) for who in ranks for at, found in enumerate(ranks[who]))
    furthest: dict[tuple[tuple[int, ...], bool], tuple[int, int, int]] = {}
    for found, who, at in everything:
        mine = who == rank
        end, other, other_at = furthest.get((found.memory, not mine), (0, 0, 0))
        if found.start < end:
            return (at, other, other_at) if mine else (other_at, who, at)
        side = (found.memory, mine)
        furthest[side] = max(furthest.get(side, (0, 0, 0)), (found.end, who, at))
    return None
