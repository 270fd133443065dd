"""Retries, ranks that leave, spaces that go, and the end of the daemon, as rules of the property test."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvstow.server.core.errors import NotAttached, SpaceInUse, TransferIdReused
from kvstow.server.core.events import Draining
from kvstow.server.core.types import (
    GroupBlocks,
    SessionEnd,
    SpaceId,
    TransferId,
    TransferKind,
)
from support.ledger_model import BLOCK_COUNT, KEYS, LedgerModel

OTHER_KIND = {TransferKind.STORE: TransferKind.LOAD, TransferKind.LOAD: TransferKind.STORE}

any_space = precondition(lambda self: self.generation)
any_session = precondition(lambda self: self.readers)
any_flight = precondition(lambda self: self.flown)
picks = st.integers(0, 99)


class RareRules(LedgerModel):
    """What happens seldom."""

    @any_flight
    @rule(pick=picks, changed=st.booleans())
    def repeat(self, pick: int, changed: bool) -> None:
        """A retried call is answered as the first time and changes nothing; an id is good for one request only."""
        flight_id = self._flown(pick)
        session, transfer = flight_id
        if session not in self.readers:
            return
        flight = self.flying.get(flight_id)
        kind = TransferKind.LOAD if flight is None else flight.plan.kind
        kind = OTHER_KIND[kind] if changed else kind
        batch, before = self.asked[flight_id], self.ledger.snapshot(now=self.now)
        try:
            plan = self._send(kind, session, transfer, 1, batch, None)
        except TransferIdReused:
            assert changed or flight is None  # every report was acknowledged
        else:
            assert flight is not None
            assert not changed
            assert plan.repeated
            assert (plan.copies, plan.statuses) == ((), flight.plan.statuses)
        assert self.ledger.snapshot(now=self.now) == before

    @any_session
    @rule(pick=picks)
    def leave(self, pick: int) -> None:
        """A rank gives up its memory: nothing begins until it is back, what is under way goes on."""
        session = self._pick(pick)
        self.ledger.detach(session, 0)
        before = self.ledger.snapshot(now=self.now)
        generation = self.generation[self.readers[session].space]
        with pytest.raises(NotAttached):
            self._send(
                TransferKind.STORE,
                session,
                TransferId(self.last_transfer + 1),
                generation,
                [GroupBlocks(0, KEYS[:1], [0])],
                None,
            )
        assert self.ledger.snapshot(now=self.now) == before
        self.ledger.attach(session, 0, (BLOCK_COUNT,))

    @any_space
    @rule(data=st.data(), empty=st.booleans())
    def drop_space(self, data: st.DataObject, empty: bool) -> None:
        """A space goes with everything in it, unless somebody has a session there."""
        space = data.draw(st.sampled_from(sorted(self.generation)))
        inside = [name for name, reader in self.readers.items() if reader.space == space]
        if empty and len(inside) < len(self.readers):
            for session in inside:
                self.ledger.end_session(session, SessionEnd.CLOSED, now=self.now)
                self._forget(session)
        occupied = any(reader.space == space for reader in self.readers.values())
        ready = sum(stored == space for stored, _ in self.stored)
        try:
            assert self.ledger.drop_space(space, now=self.now) == ready
        except SpaceInUse:
            assert occupied
            return
        assert not occupied
        del self.generation[space]
        self._lose(space)

    @rule()
    def announce_drain(self) -> None:
        """Every session hears that the daemon is shutting down."""
        self.ledger.announce_drain(now=self.now)
        for session, reader in self.readers.items():
            news = self.ledger.events(session, reader.seen, 10_000)
            assert [event for _, event in news] == [Draining()]

    def _lose(self, space: SpaceId) -> None:
        """Nothing of a space can be found any more, and nobody waits for its transfers."""
        self.stored = {name: token for name, token in self.stored.items() if name[0] != space}
        for name, flight in list(self.flying.items()):
            if flight.space == space and not flight.abandoned:
                self._abandon(name, flight)
