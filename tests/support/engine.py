"""A stand-in for an inference engine, in the daemon's own process: real memory, real blocks, no model."""

from collections.abc import Mapping, Sequence

from kvstow.server.core.events import Event, TransferEnded
from kvstow.server.core.requests import Process
from kvstow.server.core.types import (
    Group,
    GroupBlocks,
    GroupHits,
    GroupKeys,
    Hold,
    Identity,
    KeyScheme,
    Layout,
    LeaseId,
    LookupResult,
    TransferId,
    TransferPlan,
    TransferState,
)
from kvstow.server.daemon import Daemon

from .machines import Place
from .memory import FENCES, KEY_BYTES, content, key
from .waiting import wait_for

ONE_RANK = Layout("float32", 16, 1, "", (Group((512, 512)),))
BLOCK_COUNT = 16
_DEADLINE_S = 600.0


def identity(layout: Layout = ONE_RANK, model: str = "model", tenant: str = "") -> Identity:
    """Names a space."""
    return Identity(tenant, model, "", layout, KeyScheme("sha256", KEY_BYTES, b""))


class Engine:
    """One engine: a session, the memory of its ranks, and a stream that is read when events are asked for.

    The daemon's books are verified after each of its steps.

    Args:
        daemon: where the session is opened.
        place: where its memory is.
        space: what the engine serves.
        name: for people.
        process: whose death ends the session.
        attach: whether all ranks attach at once.

    Attributes:
        last_transfer: id of the newest transfer.
    """

    def __init__(
        self,
        daemon: Daemon,
        place: Place,
        space: Identity | None = None,
        *,
        name: str = "engine",
        process: Process | None = None,
        attach: bool = True,
    ) -> None:
        self.daemon = daemon
        self.layout = (space or identity()).layout
        opened = daemon.open_session(space or identity(), name, process)
        self.session, self.space, self.generation = opened.session, opened.space, opened.generation
        ranks = range(self.layout.world_size)
        self.ranks = [place.rank(self.layout, BLOCK_COUNT) for _ in ranks]
        self.stream = daemon.watch(self.session, 0)
        self.last_transfer = TransferId(0)
        self._events: list[Event] = []
        for rank in ranks if attach else ():
            self.attach(rank)

    def attach(self, rank: int) -> None:
        """Attach one rank."""
        self.daemon.attach(self.session, rank, self.ranks[rank].memory, None)

    def fill(self, keys: Sequence[bytes], blocks: Sequence[int], group: int = 0) -> None:
        """Compute blocks: write the content of each key, on every rank."""
        self._each(keys, blocks, group, check=False)

    def verify(self, keys: Sequence[bytes], blocks: Sequence[int], group: int = 0) -> None:
        """Every block has the content of its key, on every rank."""
        self._each(keys, blocks, group, check=True)

    def begin_store(
        self, keys: Sequence[bytes], blocks: Sequence[int], group: int = 0
    ) -> TransferPlan:
        """Compute blocks and offer them."""
        self.fill(keys, blocks, group)
        return self.begin_store_groups({group: (keys, blocks)})

    def begin_store_groups(
        self,
        groups: Mapping[int, tuple[Sequence[bytes], Sequence[int]]],
        deadline_s: float = _DEADLINE_S,
    ) -> TransferPlan:
        """Offer blocks of several groups as they are."""
        plan = self.daemon.store(
            self.session,
            self.generation,
            self._next(),
            _blocks(groups),
            deadline_s,
            self._fence(),
        )
        self.daemon.check()
        return plan

    def begin_load(
        self,
        keys: Sequence[bytes],
        blocks: Sequence[int],
        group: int = 0,
        lease: LeaseId | None = None,
    ) -> TransferPlan:
        """Ask for blocks, whose memory is spoilt before."""
        for block in blocks:
            for rank in self.ranks:
                size_bytes = self.layout.groups[group].block_bytes
                rank.write(group, block, b"\xee" * size_bytes)
        plan = self.daemon.load(
            self.session,
            self.generation,
            self._next(),
            _blocks({group: (keys, blocks)}),
            lease,
            _DEADLINE_S,
            self._fence(),
        )
        self.daemon.check()
        return plan

    def store(self, keys: Sequence[bytes], blocks: Sequence[int], group: int = 0) -> None:
        """Compute blocks and store all of them."""
        plan = self.begin_store(keys, blocks, group)
        assert set(plan.statuses) == {"A"}
        assert self.ended(plan.transfer).state is TransferState.DONE

    def load(self, keys: Sequence[bytes], blocks: Sequence[int], group: int = 0) -> None:
        """Load blocks and find their content."""
        plan = self.begin_load(keys, blocks, group)
        assert self.ended(plan.transfer).state is TransferState.DONE
        self.verify(keys, blocks, group)

    def lookup(
        self,
        keys: Sequence[bytes],
        group: int = 0,
        *,
        hold: Hold = Hold.NONE,
        request: str = "request",
    ) -> LookupResult:
        """Ask for a prefix of one group."""
        result = self.daemon.lookup(
            self.session,
            self.generation,
            [GroupKeys(group, keys)],
            request=request,
            hold=hold,
            ttl_s=60.0,
            touch=False,
            want_states=False,
        )
        self.daemon.check()
        return result

    def hits(self, keys: Sequence[bytes], group: int = 0) -> GroupHits:
        """What a lookup without a hold finds."""
        return self.lookup(keys, group).groups[0]

    def events(self) -> list[Event]:
        """Everything that the stream has brought so far."""
        while batch := self.stream.next(0):
            self._events += [event for _, event in batch]
        return self._events

    def reports(self, transfer: TransferId) -> list[TransferEnded]:
        """The terminal reports of a transfer so far."""
        return [
            event
            for event in self.events()
            if isinstance(event, TransferEnded) and event.transfer == transfer
        ]

    def ended(self, transfer: TransferId) -> TransferEnded:
        """Wait for the terminal report of a transfer; there is exactly one."""
        wait_for(lambda: self.reports(transfer), f"the end of transfer {transfer}")
        (report,) = self.reports(transfer)
        self.daemon.check()
        return report

    def close(self) -> None:
        """Leave."""
        self.daemon.close_session(self.session)

    def _next(self) -> TransferId:
        self.last_transfer = TransferId(self.last_transfer + 1)
        return self.last_transfer

    def _fence(self) -> int | None:
        """Record the next fence on every rank behind all that was written; None if there are none."""
        if not self.ranks[0].memory.fences:
            return None
        fence = int(self.last_transfer) % FENCES
        for rank in self.ranks:
            rank.record(fence)
        return fence

    def _each(
        self, keys: Sequence[bytes], blocks: Sequence[int], group: int, *, check: bool
    ) -> None:
        described = self.layout.groups[group]
        for rank, file in enumerate(self.ranks):
            owner = 0 if described.replicated else rank
            for block_key, block in zip(keys, blocks, strict=True):
                expected = content(block_key, owner, group, described.block_bytes)
                if check:
                    assert file.read(group, block) == expected, f"rank {rank}, block {block}"
                else:
                    file.write(group, block, expected)


def keys(*numbers: int, salt: str = "") -> list[bytes]:
    """Block keys."""
    return [key(number, salt) for number in numbers]


def _blocks(groups: Mapping[int, tuple[Sequence[bytes], Sequence[int]]]) -> list[GroupBlocks]:
    return [GroupBlocks(group, keys, blocks) for group, (keys, blocks) in groups.items()]
