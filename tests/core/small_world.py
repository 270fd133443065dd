"""A world small enough to visit every state of it: two keys, two slots, two engines, and everything that can happen.

Beside the ledger it keeps what the ledger cannot know: the bytes. A slot has no content while a store is copied into it,
and the content that the store brought when the copy has ended. `verify` compares the books with that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from core.engines import SLOT_BYTES, identity, key, make_ledger
from kvstow.server.core.books import Books, Limits
from kvstow.server.core.errors import KeyNotReady
from kvstow.server.core.events import LeaseExpired, ResetDrained, SpaceReset, TransferEnded
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.slots import SlotTable
from kvstow.server.core.spaces import Space
from kvstow.server.core.types import (
    BlockFailure,
    GroupBlocks,
    GroupKeys,
    Hold,
    SessionEnd,
    SessionId,
    TransferId,
    TransferKind,
    TransferPlan,
    TransferState,
)

KEYS = (1, 2)
DEADLINE_S = 3600.0
"""So late that no transfer becomes overdue."""

REQUEST = "request"
"""The one request of each engine."""

Content = tuple[int, bytes]
"""Generation and key that the bytes in a slot belong to."""

Owner = tuple[SessionId, TransferId]


@dataclass(slots=True)
class Flight:
    """A transfer that has begun and not ended.

    Attributes:
        blocks: key and slot of each block that is copied.
        positions: where these stand in the request.
        expected: for a load, what it must find in each slot until its copy has ended.
    """

    kind: TransferKind
    generation: int
    blocks: Sequence[tuple[bytes, int]]
    positions: Sequence[int]
    expected: dict[int, Content | None] = field(default_factory=dict)
    running: bool = False
    abandoned: bool = False


class SmallWorld:
    """The ledger, its engines, and the bytes.

    Args:
        limits: of the ledger.

    Attributes:
        engines: session of each engine, None while its process is dead.
        read: last event read, by session.
        flights: transfers under way.
        content: what is in each slot; None while it is being written.
        draining: generations whose reset has not drained.
    """

    def __init__(self, limits: Limits) -> None:
        self.ledger: Ledger = make_ledger(2, limits=limits)
        self.now = 0.0
        self.engines: list[SessionId | None] = [None, None]
        self.read: dict[SessionId, int] = {}
        self.flights: dict[Owner, Flight] = {}
        self.content: dict[int, Content | None] = {}
        self.draining: list[int] = []
        self._last_transfer = 0
        self.open(0)
        self.open(1)

    @property
    def books(self) -> Books:
        """The books themselves: what is looked at here no answer of the ledger shows."""
        return self.ledger._books

    @property
    def space(self) -> Space:
        """The one space."""
        (space,) = self.books.spaces.values()
        return space

    @property
    def table(self) -> SlotTable:
        """The one slot table."""
        return self.books.pool.tables[SLOT_BYTES]

    def run(self, verb: Callable[..., None], *arguments: object) -> None:
        """Let something happen (`verb` is one of the methods below), and read what the engines are told."""
        self.now += 1
        verb(self, *arguments)
        self._read_reports()

    def open(self, engine: int) -> None:
        """A process starts."""
        session = self.ledger.open_session(identity(), "engine", now=self.now)
        self.ledger.attach(session, 0, (10,))
        self.ledger.open_stream(session)
        self.engines[engine], self.read[session] = session, 0

    def kill(self, engine: int) -> None:
        """A process dies: its queued transfers are gone, its running copies go on."""
        session = self._session(engine)
        self.ledger.end_session(session, SessionEnd.PROCESS_DIED, now=self.now)
        self.engines[engine] = None
        for owner, flight in list(self.flights.items()):
            if owner[0] == session and not flight.running:
                del self.flights[owner]
            elif owner[0] == session:
                flight.abandoned = True

    def hold(self, engine: int) -> None:
        """Look up everything and hold what is there."""
        options = LookupOptions(REQUEST, Hold.PREFIX, ttl_s=60.0)
        groups = [GroupKeys(0, [key(number) for number in KEYS])]
        self.ledger.lookup(
            self._session(engine), self.space.generation, groups, options, now=self.now
        )

    def release(self, engine: int) -> None:
        """Give the lease back."""
        session = self._session(engine)
        (lease,) = self.books.sessions[session].leases.values()
        assert self.ledger.release(session, [lease], now=self.now) == 1

    def store(self, engine: int, keys: Sequence[int]) -> None:
        """Offer blocks; no slot that a transfer has is given to another one."""
        owner = self._next_owner(engine)
        owned = {slot for flight in self.flights.values() for _, slot in flight.blocks}
        plan = self.ledger.begin_store(
            *owner, self.space.generation, _groups(keys), deadline_s=DEADLINE_S, now=self.now
        )
        if plan.copies:
            blocks = _blocks(plan, keys)
            assert owned.isdisjoint(slot for _, slot in blocks)
            positions = plan.copies[0].positions
            self.flights[owner] = Flight(
                TransferKind.STORE, self.space.generation, blocks, positions
            )

    def load(self, engine: int, keys: Sequence[int]) -> None:
        """Ask for blocks; what is given is what was stored under these keys in this generation."""
        owner = self._next_owner(engine)
        generation = self.space.generation
        lease = self.books.sessions[owner[0]].leases.get(REQUEST)
        try:
            plan = self.ledger.begin_load(
                *owner, generation, _groups(keys), lease=lease, deadline_s=DEADLINE_S, now=self.now
            )
        except KeyNotReady:
            return
        blocks = _blocks(plan, keys)
        expected = {slot: self.content[slot] for _, slot in blocks}
        assert expected == {slot: (generation, block_key) for block_key, slot in blocks}
        positions = plan.copies[0].positions
        self.flights[owner] = Flight(TransferKind.LOAD, generation, blocks, positions, expected)

    def start(self, owner: Owner) -> None:
        """A copy begins; a store spoils what was in its slots."""
        flight = self.flights[owner]
        assert self.ledger.start(*owner)
        flight.running = True
        if flight.kind is TransferKind.STORE:
            self.content.update((slot, None) for _, slot in flight.blocks)

    def finish(self, owner: Owner, failed: Sequence[int]) -> None:
        """A copy ends, some of its blocks failed: a load has read what it was promised, a store has brought its bytes."""
        flight = self.flights[owner]
        failures = [BlockFailure(flight.positions[at], 0, "broken") for at in failed]
        outcome = TransferState.FAILED if failed else TransferState.DONE
        if flight.kind is TransferKind.STORE:
            for at, (block_key, slot) in enumerate(flight.blocks):
                good = at not in failed
                self.content[slot] = (flight.generation, block_key) if good else None
        state = self.ledger.finish(*owner, failures, now=self.now)
        assert state is (TransferState.ABANDONED if flight.abandoned else outcome)
        if owner[0] not in self.engines:
            del self.flights[owner]

    def cancel(self, owner: Owner) -> None:
        """An engine does not wait any more."""
        session, transfer = owner
        flight = self.flights[owner]
        ended, abandoned = self.ledger.cancel(session, [transfer], now=self.now)
        assert (ended, abandoned) == (not flight.running, flight.running)
        flight.abandoned = True

    def reset(self) -> None:
        """The weights are new; the answer tells the truth about what is left."""
        running = [flight.running for flight in self.flights.values()]
        result = self.ledger.reset(self.space.id, now=self.now)
        assert result.generation == self.space.generation
        assert result.abandoned_stores + result.abandoned_loads == sum(running)
        assert result.ended_count == len(running) - sum(running)
        for flight in self.flights.values():
            flight.abandoned = True
        self.draining.append(result.generation)

    def expire(self) -> None:
        """The oldest lease runs out."""
        oldest = min(self.books.leases.values(), key=lambda lease: lease.expires_at)
        self.now = oldest.expires_at
        assert self.ledger.expire(now=self.now).leases == (oldest.id,)

    def sweep(self) -> None:
        """The daemon has nothing else to do. Nobody can tell: what is free or evictable can only become more."""
        room = self._room()
        assert self.ledger.sweep()
        assert self._room() >= room

    def _room(self) -> int:
        (table,) = self.ledger.snapshot(now=self.now).tables
        return table.free + table.evictable

    def _read_reports(self) -> None:
        """Every engine reads its stream: each transfer ends once, each reset drains once and at the right time."""
        drained = {
            session: self._read_stream(session) for session in self.engines if session is not None
        }
        oldest = min((flight.generation for flight in self.flights.values()), default=None)
        done = [due for due in self.draining if oldest is None or due <= oldest]
        self.draining = self.draining[len(done) :]
        assert all(heard == done for heard in drained.values())

    def _read_stream(self, session: SessionId) -> list[int]:
        drained = []
        for number, event in self.ledger.events(session, self.read[session], 100):
            self.read[session] = number
            match event:
                case TransferEnded(transfer):
                    assert self.flights.pop((session, transfer), None), f"{event} once more"
                case ResetDrained(generation):
                    drained.append(generation)
                case SpaceReset() | LeaseExpired():
                    pass
                case _:
                    raise AssertionError(f"unexpected {event}")
        self.ledger.acknowledge(session, self.read[session])
        return drained

    def _session(self, engine: int) -> SessionId:
        session = self.engines[engine]
        assert session is not None
        return session

    def _next_owner(self, engine: int) -> Owner:
        self._last_transfer += 1
        return self._session(engine), TransferId(self._last_transfer)


def _groups(keys: Sequence[int]) -> list[GroupBlocks]:
    return [GroupBlocks(0, [key(number) for number in keys], keys)]


def _blocks(plan: TransferPlan, keys: Sequence[int]) -> list[tuple[bytes, int]]:
    """Key and slot of each block that is copied."""
    (copies,) = plan.copies
    return [
        (key(keys[position]), slot)
        for position, slot in zip(copies.positions, copies.slots, strict=True)
    ]
