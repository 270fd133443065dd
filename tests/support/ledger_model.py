"""A plain-dict model of what the ledger promises, for the stateful test."""

from collections.abc import Callable, Collection

from hypothesis.stateful import RuleBasedStateMachine, invariant

from kvstow.server.core.admission import Admission
from kvstow.server.core.books import Limits
from kvstow.server.core.errors import KeyNotReady, StaleGeneration, TooManyTransfers
from kvstow.server.core.events import ResetDrained, SpaceReset, TransferEnded
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.policy import make_policy
from kvstow.server.core.types import (
    BlockFailure,
    Group,
    GroupBlocks,
    Identity,
    KeyScheme,
    KeyState,
    Layout,
    LeaseId,
    SessionEnd,
    SessionId,
    SpaceId,
    TransferId,
    TransferKind,
    TransferPlan,
    TransferState,
)
from support.ledger_flights import Flight, Reader, Token
from support.pool_bytes import PoolBytes, Slot

KEYS = [bytes([number]) for number in range(6)]
BLOCK_COUNT = len(KEYS)
EXTENT_BYTES = 256
"""Four small slots, two large ones, or a wide one and 64 bytes that nothing uses."""

SMALL, LARGE, WIDE = ("small", 64), ("large", 128), ("wide", 192)
"""Models, by name and bytes of a block; each has a tenant of its name."""


def identity(model: str, block_bytes: int) -> Identity:
    layout = Layout("float32", 16, 1, "test", (Group((block_bytes,)),))
    return Identity(model, model, "1", layout, KeyScheme("test", 1, b""))


class LedgerModel(RuleBasedStateMachine):
    """What was promised so far, and the ledger it is held against."""

    def _make(
        self,
        extents: int,
        policy: str,
        threshold: int,
        max_tightened: int,
        zeroed: Collection[str] = (),
    ) -> None:
        self.ledger = Ledger(
            extents * EXTENT_BYTES,
            EXTENT_BYTES,
            make_policy=lambda identify: make_policy(policy, identify),
            admission=Admission(threshold, 16),
            limits=Limits(max_transfers=6, max_tightened=max_tightened, grace_s=20.0),
            zeroes=lambda tenant: tenant in zeroed,
        )
        self.bytes = PoolBytes(self.ledger, extents * EXTENT_BYTES, EXTENT_BYTES, zeroed)
        self.admits_all = threshold == 1
        self.now = 0.0
        self.last_transfer = 0
        self.generation: dict[SpaceId, int] = {}
        self.stored: dict[tuple[SpaceId, bytes], Token] = {}
        self.content: dict[Slot, Token] = {}
        self.flying: dict[tuple[SessionId, TransferId], Flight] = {}
        self.readers: dict[SessionId, Reader] = {}
        self.flown: list[tuple[SessionId, TransferId]] = []
        self.asked: dict[tuple[SessionId, TransferId], list[GroupBlocks]] = {}

    # What holds after every step

    @invariant()
    def books_agree(self) -> None:
        self.ledger.check()

    @invariant()
    def every_report_once_and_in_order(self) -> None:
        for session, reader in self.readers.items():
            news = self.ledger.events(session, reader.seen, 10_000)
            assert [number for number, _ in news] == list(
                range(reader.seen + 1, reader.seen + len(news) + 1)
            )
            ended = []
            for number, event in news:
                reader.seen = number
                match event:
                    case TransferEnded():
                        ended.append(event)
                    case SpaceReset(generation):
                        reader.resets[generation] -= 1
                    case ResetDrained(generation):
                        reader.drained[generation] += 1
                    case _:
                        pass
            assert ended == reader.owed
            reader.owed.clear()
            assert not +reader.resets
            assert not -reader.resets
            assert all(count == 1 for count in reader.drained.values())
            self.ledger.acknowledge(session, reader.seen)

    def teardown(self) -> None:
        """When everybody is gone and every copy has ended, nothing is left but blocks."""
        for session in list(self.readers):
            self.ledger.end_session(session, SessionEnd.CLOSED, now=self.now)
        for flight_id in self.flying:
            self.ledger.finish(*flight_id, (), now=self.now)
        self.ledger.check()
        self.bytes.clean_up(())
        view = self.ledger.snapshot(now=self.now)
        assert (view.sessions, view.transfers, view.leases) == ((), (), ())
        for table in view.tables:
            assert (table.held, table.writing, table.quarantined, table.zeroing) == (0, 0, 0, 0)
            assert table.free + table.evictable == table.slots
        assert all(space.draining == () for space in view.spaces)

    # The model

    def _pick(self, pick: int) -> SessionId:
        return sorted(self.readers)[pick % len(self.readers)]

    def _flown(self, pick: int) -> tuple[SessionId, TransferId]:
        return self.flown[-1 - pick % min(len(self.flown), 8)]

    def _begun(self, begin: Callable[[], None]) -> bool:
        """Whether this began a transfer: rules go on with it, so that deep states take few steps."""
        before = len(self.flown)
        begin()
        return len(self.flown) > before

    def _leases(self, session: SessionId) -> list[LeaseId]:
        leases = self.ledger.snapshot(now=self.now).leases
        return [found.id for found in leases if found.session == session]

    def _stalled(self, session: SessionId) -> bool:
        transfers = self.ledger.snapshot(now=self.now).transfers
        return any(found.overdue for found in transfers if found.session == session)

    def _state(self, space: SpaceId, key: bytes) -> KeyState:
        if (space, key) in self.stored:
            return KeyState.READY
        writing = any(
            flight.space == space
            and flight.plan.kind is TransferKind.STORE
            and not flight.abandoned
            and key in flight.keys.values()
            for flight in self.flying.values()
        )
        return KeyState.WRITING if writing else KeyState.ABSENT

    def _begin(
        self,
        kind: TransferKind,
        session: SessionId,
        keys: list[bytes],
        *,
        stale: bool = False,
        ready: bool = True,
        lease: LeaseId | None = None,
    ) -> TransferPlan | None:
        self.last_transfer += 1
        generation = self.generation[self.readers[session].space] - stale
        batch = [GroupBlocks(0, keys, list(range(len(keys))))]
        transfer = TransferId(self.last_transfer)
        before = self.ledger.snapshot(now=self.now)
        self.asked[session, transfer] = batch
        try:
            return self._send(kind, session, transfer, generation, batch, lease)
        except StaleGeneration:
            assert stale
        except KeyNotReady:
            assert not ready
        except TooManyTransfers:
            assert sum(name[0] == session for name in self.flying) == 6
        assert self.ledger.snapshot(now=self.now) == before
        return None

    def _send(
        self,
        kind: TransferKind,
        session: SessionId,
        transfer: TransferId,
        generation: int,
        batch: list[GroupBlocks],
        lease: LeaseId | None,
    ) -> TransferPlan:
        if kind is TransferKind.STORE:
            return self.ledger.begin_store(
                session, transfer, generation, batch, deadline_s=30.0, now=self.now
            )
        return self.ledger.begin_load(
            session, transfer, generation, batch, lease=lease, deadline_s=30.0, now=self.now
        )

    def _check_statuses(
        self, space: SpaceId, keys: list[bytes], before: list[KeyState], plan: TransferPlan
    ) -> None:
        wanted = {KeyState.READY: "S", KeyState.WRITING: "W", KeyState.ABSENT: "AND"}
        gap = (plan.statuses + "N").index("N")  # a full pool does not look behind it
        for at, (state, letter) in enumerate(zip(before, plan.statuses, strict=True)):
            assert letter in wanted[state] or (letter == "N" and gap < at)
            assert letter != "D" or not self.admits_all
        new = [letter for letter in plan.statuses if letter in "AN"]
        assert "".join(new) == "A" * new.count("A") + "N" * new.count("N")
        view = self.ledger.snapshot(now=self.now)
        for key, letter in zip(keys, plan.statuses, strict=True):
            assert letter != "S" or self._is_ready(space, key)
        # What eviction and reclaiming took away is what the model finds gone now.
        self.stored = {name: token for name, token in self.stored.items() if self._is_ready(*name)}
        if "N" in plan.statuses:
            layout = self.ledger.identity_of(space).layout
            size = layout.groups[0].slot_bytes(layout.world_size)
            table = next(found for found in view.tables if found.slot_bytes == size)
            assert view.unused_extents == table.free == 0
            being_zeroed = len(self.ledger._books.pool.being_zeroed(size))
            assert table.zeroing == being_zeroed, "a slot that only waits to be zeroed can be had"
            backlogs = [each.backlog.values() for each in self.ledger._books.pool.tables.values()]
            assert not any(map(any, backlogs)), "a slot that is loose can be had"
            assert table.evictable <= plan.statuses.count("S")

    def _is_ready(self, space: SpaceId, key: bytes) -> bool:
        # The books are asked directly: a lookup needs a living session of the space.
        index = self.ledger._books.spaces[space].indexes[0]
        return index.state(key) is KeyState.READY

    def _fly(
        self, plan: TransferPlan, space: SpaceId, keys: dict[int, bytes]
    ) -> tuple[SessionId, TransferId]:
        tenant = self.ledger.identity_of(space).tenant  # the space may be dropped under the copy
        flight = Flight(plan, space, tenant, self.generation[space], keys)
        assert set(flight.slots) == set(keys)
        name = (plan.session, plan.transfer)
        if plan.kind is TransferKind.STORE:
            assert set(flight.slots.values()).isdisjoint(self._copied()), "given away under a copy"
        self.flying[name] = flight
        self.flown.append(name)
        return name

    def _copied(self) -> list[Slot]:
        return [slot for flight in self.flying.values() for slot in flight.slots.values()]

    def _write(self, flight: Flight, failed: Collection[int]) -> None:
        for position, slot in flight.slots.items():
            self.content[slot] = (flight.plan.session, flight.plan.transfer, flight.keys[position])
            whole = position not in failed and not flight.abandoned
            self.bytes.write(flight.tenant, [slot], whole=whole)

    def _check_readable(self, flight: Flight) -> None:
        for slot, token in flight.expected.items():
            assert self.content[slot] == token, "a load reads foreign bytes"

    def _settle(self, flight: Flight, failures: tuple[BlockFailure, ...]) -> None:
        if flight.abandoned:
            return
        failed = {failure.position for failure in failures}
        for position, key in flight.keys.items():
            if flight.plan.kind is TransferKind.STORE:
                if position not in failed:
                    token = (flight.plan.session, flight.plan.transfer, key)
                    self.stored[flight.space, key] = token
            elif position in failed:
                self.stored.pop((flight.space, key), None)

    def _abandon(self, name: tuple[SessionId, TransferId], flight: Flight) -> None:
        flight.abandoned = True
        if not flight.running:
            del self.flying[name]
            self._report(flight, TransferState.ABANDONED, ())

    def _report(
        self, flight: Flight, state: TransferState, failures: tuple[BlockFailure, ...]
    ) -> None:
        if flight.plan.session in self.readers:
            event = TransferEnded(flight.plan.transfer, flight.plan.kind, state, failures)
            self.readers[flight.plan.session].owed.append(event)

    def _forget(self, session: SessionId) -> None:
        for name, flight in list(self.flying.items()):
            if name[0] == session and not flight.abandoned:
                self._abandon(name, flight)
        del self.readers[session]
