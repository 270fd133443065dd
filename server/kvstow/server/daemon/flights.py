"""Transfers in the air: from their plan to the one moment when their last copy has ended.

A transfer is one copy per rank. The device tells of each copy's start and end on its own threads; here they are counted,
and the ledger is told exactly once, when nothing touches the slots and the engine's blocks any more.

Replicated groups are stored from rank 0's memory alone and loaded to all ranks. A rank with nothing to copy takes no part.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import structlog

from kvstow.server.core.errors import BooksError
from kvstow.server.core.spans import Spans, join_spans, plan_spans
from kvstow.server.core.types import (
    BlockFailure,
    GroupCopies,
    Layout,
    SessionId,
    TransferId,
    TransferKind,
    TransferPlan,
    TransferState,
)
from kvstow.server.device.base import Copy, Device, Direction

from .attachments import Attachment
from .guard import Guard
from .health import Health
from .meters import Meters

FlightKey = tuple[SessionId, TransferId]
Failures = Sequence[tuple[int, str]]

_DIRECTIONS = {TransferKind.STORE: Direction.STORE, TransferKind.LOAD: Direction.LOAD}
_log = structlog.get_logger("kvstow.daemon")


@dataclass(slots=True)
class Flights:
    """All transfers in the air.

    Args:
        guard: the lock and the books.
        device: makes the copies.
        extent_bytes: size of the extents of the host pool.
        clock: the daemon's clock.
        health: told of our own mistakes.
        meters: told of copies that ended.
        wake_closer: called without the lock when memory may now be closed.
        before_copy: called without the lock before anything of a transfer is copied, on a thread of the device.
        copied_bytes: by ended copies, of all ranks, since the start; under the lock.
    """

    guard: Guard
    device: Device
    extent_bytes: int
    clock: Callable[[], float]
    health: Health
    meters: Meters
    wake_closer: Callable[[], None]
    before_copy: Callable[[TransferPlan, Layout], None]
    copied_bytes: Counter[TransferKind] = field(default_factory=Counter)
    _flying: dict[FlightKey, "Flight"] = field(default_factory=dict)

    def begin(
        self,
        plan: TransferPlan,
        layout: Layout,
        attachments: Mapping[int, Attachment],
        fence: int | None,
    ) -> "Flight":
        """Take a transfer up that the ledger has just begun; under the lock. The caller launches it afterwards."""
        flight = Flight(self, plan, layout, attachments, fence)
        self._flying[plan.session, plan.transfer] = flight
        return flight

    def end(self, flight: "Flight") -> None:
        """Its last copy has ended; under the lock."""
        del self._flying[flight.plan.session, flight.plan.transfer]

    def of(self, session: SessionId) -> list[TransferId]:
        """The transfers of a session that are in the air; under the lock."""
        return [transfer for owner, transfer in self._flying if owner == session]

    def unfinished_ranks(self, keys: Sequence[FlightKey]) -> list[list[int]]:
        """For each transfer the ranks whose copy has not ended; none of what is not in the air; under the lock."""
        flying = self._flying
        return [sorted(flying[key].left) if key in flying else [] for key in keys]

    def mark_overdue(self, keys: Sequence[FlightKey]) -> None:
        """These are past their deadline; under the lock."""
        for key in self._flying.keys() & keys:
            self._flying[key].overdue = True

    def stuck_count(self) -> int:
        """Transfers past their deadline whose copy has begun and not ended; under the lock."""
        return sum(flight.overdue and flight.started for flight in self._flying.values())

    def copy_counts(self) -> Mapping[Attachment, int]:
        """Recount the copies on each attachment; under the lock."""
        return Counter(
            flight.attachments[rank] for flight in self._flying.values() for rank in flight.left
        )

    def __len__(self) -> int:
        return len(self._flying)


@dataclass(slots=True, eq=False)
class Flight:
    """One transfer in the air.

    Args:
        crew: what all flights share.
        plan: what is to be copied.
        layout: of the space.
        attachments: the memory of every rank.
        fence: which of its ring's each rank's copy waits for; None for none.

    Attributes:
        left: ranks whose copy has not ended; under the lock, as are the following.
        started: a copy of it has begun.
        overdue: it is past its deadline.
    """

    crew: Flights
    plan: TransferPlan
    layout: Layout
    attachments: Mapping[int, Attachment]
    fence: int | None
    left: set[int] = field(init=False)
    started: bool = False
    overdue: bool = False
    _failures: list[BlockFailure] = field(default_factory=list)
    _settled: bool = False

    def __post_init__(self) -> None:
        self.left = {rank for rank in self.attachments if any(self._copies(rank))}
        for rank in self.left:
            self.attachments[rank].copy_count += 1

    def launch(self) -> None:
        """Hand the copies to the device; without the lock. What cannot be planned or handed over has failed."""
        for rank in sorted(self.left):
            try:
                self.crew.device.submit(self._plan_copy(rank))
            except Exception as error:  # noqa: BLE001 - whatever it is, it settles the transfer
                self._give_up(rank, error)

    def start(self, rank: int) -> bool:
        """See `CopyOwner.start`."""
        with self.crew.guard as ledger:
            first = not self.started
            self.started = ledger.start(self.plan.session, self.plan.transfer)
            self._settled = not self.started  # it ended while it was queued, and was reported then
        if self._settled:
            self._land(rank, ())
            return False
        try:
            if first:  # for all ranks: the transfer ends after this copy, whichever it is
                self.crew.before_copy(self.plan, self.layout)
        except Exception as error:  # noqa: BLE001 - the device's thread has others to serve
            self._give_up(rank, error)
            return False
        return True

    def abandoned(self) -> bool:
        """See `CopyOwner.abandoned`."""
        with self.crew.guard as ledger:
            return not ledger.is_wanted(self.plan.session, self.plan.transfer)

    def end(self, rank: int, failures: Failures, copied_bytes: int, seconds: float) -> None:
        """See `CopyOwner.end`."""
        # Before the report: whoever hears of the end finds it measured.
        self.crew.meters.copied(_DIRECTIONS[self.plan.kind], copied_bytes, seconds)
        fenced_store = self.fence is not None and self.plan.kind is TransferKind.STORE
        if fenced_store and self.attachments[rank].is_ending():
            reason = "the engine ended, perhaps before it had written the block"
            failures = [(block, reason) for block in range(len(self._positions(rank)))]
        positions = self._positions(rank) if failures else ()
        failed = [BlockFailure(positions[block], rank, reason) for block, reason in failures]
        self._land(rank, failed, copied_bytes)

    def _give_up(self, rank: int, error: Exception) -> None:
        """The copy of one rank cannot begin, by a mistake of our own; no other rank's is of use then."""
        self.crew.health.report("begin of a copy", error)
        reason = f"internal error: {type(error).__name__}"
        positions = chain.from_iterable(copies.positions for copies in self.plan.copies)
        self._land(rank, [BlockFailure(position, rank, reason) for position in positions])

    def _land(self, rank: int, failed: Sequence[BlockFailure], copied_bytes: int = 0) -> None:
        """The copy of one rank has ended, or never will begin."""
        try:
            state = self._settle(rank, failed, copied_bytes)
        except BooksError:  # the guard has reported it; the device's thread has others to serve
            return
        if state is TransferState.FAILED:
            self._log_failure()

    def _settle(
        self, rank: int, failed: Sequence[BlockFailure], copied_bytes: int
    ) -> TransferState | None:
        """Account for the end of one rank's copy; with the last one the transfer ends, and its state is returned."""
        crew, plan, attachment = self.crew, self.plan, self.attachments[rank]
        state = None
        with crew.guard as ledger:
            self._failures += failed
            crew.copied_bytes[plan.kind] += copied_bytes
            self.left.remove(rank)
            attachment.copy_count -= 1
            closable = attachment.detached and not attachment.copy_count
            if not self.left:
                crew.end(self)
                if not self._settled:
                    now = crew.clock()
                    state = ledger.finish(plan.session, plan.transfer, self._failures, now=now)
                crew.guard.progress()
        if closable:
            crew.wake_closer()
        return state

    def _log_failure(self) -> None:
        first = self._failures[0]
        _log.warning(
            "transfer failed: its blocks stay uncached, or the engine computes them again",
            kind=self.plan.kind.value,
            session=self.plan.session,
            transfer=self.plan.transfer,
            blocks=len({failure.position for failure in self._failures}),
            rank=first.rank,
            reason=first.reason,
        )

    def _copies(self, rank: int) -> Iterator[GroupCopies]:
        """What of the plan this rank copies."""
        store = self.plan.kind is TransferKind.STORE
        for copies in self.plan.copies:
            if not (store and rank and self.layout.groups[copies.group].replicated):
                yield copies

    def _positions(self, rank: int) -> list[int]:
        """Positions in the request of the blocks of a rank's copy, in the order of its spans."""
        return [position for copies in self._copies(rank) for position in copies.positions]

    def _plan_copy(self, rank: int) -> Copy:
        memory, layout = self.attachments[rank].memory, self.layout
        parts: list[Spans] = []
        for copies in self._copies(rank):
            group = layout.groups[copies.group]
            parts.append(
                plan_spans(
                    memory.groups[copies.group].segments,
                    copies.blocks,
                    copies.slots,
                    copies.slot_bytes,
                    self.crew.extent_bytes,
                    0 if group.replicated else rank * group.block_bytes,
                )
            )
        return Copy(
            session=self.plan.session,
            transfer=self.plan.transfer,
            rank=rank,
            direction=_DIRECTIONS[self.plan.kind],
            regions=memory.regions,
            spans=join_spans(parts),
            owner=RankCopy(self, rank),
            fence=None if self.fence is None else memory.fences[self.fence],
        )


@dataclass(frozen=True, slots=True, eq=False)
class RankCopy:
    """One rank's share of a flight, as the device sees its owner."""

    flight: Flight
    rank: int

    def start(self) -> bool:
        """See `CopyOwner.start`."""
        return self.flight.start(self.rank)

    def abandoned(self) -> bool:
        """See `CopyOwner.abandoned`."""
        return self.flight.abandoned()

    def end(self, rank: int, failures: Failures, copied_bytes: int, seconds: float) -> None:
        """See `CopyOwner.end`."""
        self.flight.end(rank, failures, copied_bytes, seconds)
