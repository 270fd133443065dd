"""A ledger with a known number of blocks.

It is set up as the daemon sets it up, the garbage collector included; what it lacks is the lock, which nobody else would take
here.
"""

import gc
from collections.abc import Callable, Sequence
from functools import partial

from kvstow.server.core.admission import Admission
from kvstow.server.core.books import Limits
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.policy import make_policy
from kvstow.server.core.types import (
    Group,
    GroupBlocks,
    GroupKeys,
    Hold,
    Identity,
    KeyScheme,
    KeyState,
    Layout,
    LeaseId,
    LookupResult,
    SessionEnd,
    SessionId,
    StoreStatus,
    TransferId,
    TransferPlan,
)

from .call_times import CallTimes
from .keys import KEY_BYTES

SLOT_BYTES = 64 << 10
EXTENT_BYTES = 64 << 20
SLOTS_PER_EXTENT = EXTENT_BYTES // SLOT_BYTES


def _identity(model: str, slot_bytes: int) -> Identity:
    layout = Layout("float16", 16, 1, "LBHNC", (Group((slot_bytes,)),))
    return Identity("", model, "", layout, KeyScheme("random", KEY_BYTES, b""))


SMALL = _identity("small", SLOT_BYTES)
LARGE = _identity("large", 1 << 20)


def settle_garbage() -> None:
    """Do what the daemon does when it is ready, and whenever a space was made."""
    gc.collect()
    gc.freeze()


class Shelf:
    """A ledger with one space and one session. Calls are timed under their name and how many blocks they are about.

    Args:
        slot_count: room for so many blocks, in whole extents.
        policy: which blocks are evicted.
        times: of the calls.
    """

    def __init__(self, slot_count: int, policy: str, times: CallTimes) -> None:
        self._session: SessionId
        self._times = times
        self._serial = 0
        self._now = 0.0
        self.ledger = Ledger(
            -(-slot_count // SLOTS_PER_EXTENT) * EXTENT_BYTES,
            EXTENT_BYTES,
            make_policy=partial(make_policy, policy),
            admission=Admission(threshold=1, limit=1),
            limits=Limits(),
        )
        self._open()
        settle_garbage()
        times.watch_collections()

    def store(self, keys: Sequence[bytes]) -> None:
        """Begin and finish a store of new blocks."""
        plan = self._begin_store(keys, StoreStatus.ACCEPTED)
        self._finish(plan, f"finish {len(keys)}")

    def load(self, keys: Sequence[bytes]) -> None:
        """Begin and finish a load of blocks that are all there."""
        self._serial += 1
        transfer, now = TransferId(self._serial), self._tick()
        _, generation = self.ledger.space_of(self._session)
        groups = [GroupBlocks(0, keys, range(len(keys)))]
        plan = self._times.time(
            f"begin_load {len(keys)}",
            lambda: self.ledger.begin_load(
                self._session, transfer, generation, groups, lease=None, deadline_s=60.0, now=now
            ),
        )
        self._finish(plan, f"finish load {len(keys)}")

    def store_large(self, offers: Sequence[Sequence[bytes]]) -> None:
        """Offer blocks of another model, of which as many are stored as there is room; at the end its space is dropped."""
        first = self._session
        self._session = self._new_session(LARGE)
        for keys in offers:
            plan = self._begin(keys, f"begin_store {len(keys)} of 1 MiB")
            if not plan.statuses.startswith(StoreStatus.ACCEPTED.value):
                raise RuntimeError(f"not one of {len(keys)} large blocks was accepted")
            self._finish(plan, f"finish {len(keys)} of 1 MiB")
        space, _ = self.ledger.space_of(self._session)
        self.ledger.end_session(self._session, SessionEnd.CLOSED, now=self._tick())
        self._times.time("drop_space", lambda: self.ledger.drop_space(space, now=self._now))
        self._sweep()
        self._session = first

    def offer_in_vain(self, keys: Sequence[bytes]) -> None:
        """Offer new blocks for which there is no room."""
        self._begin_store(keys, StoreStatus.NO_SPACE)

    def offer_again(self, keys: Sequence[bytes]) -> None:
        """Offer blocks that are all there, as an engine does when a request ends."""
        self._begin_store(keys, StoreStatus.ALREADY_STORED)

    def missing(self, keys: Sequence[bytes]) -> list[bool]:
        """For each block, whether it is not there."""
        result = self._lookup(keys, LookupOptions(want_states=True))
        return [state != KeyState.READY.value for state in result.groups[0].states]

    def lookup(self, keys: Sequence[bytes], touch: bool = False) -> None:
        """Look up blocks that are all there."""
        result = self._lookup(keys, LookupOptions(touch=touch))
        if result.groups[0].hit_count != len(keys):
            raise RuntimeError(f"{result.groups[0].hit_count} of {len(keys)} keys were found")

    def hold_ready(self, keys: Sequence[bytes]) -> LeaseId | None:
        """Put those blocks under a lease that are there."""
        self._serial += 1
        options = LookupOptions(str(self._serial), Hold.READY, Limits().max_lease_s)
        return self._lookup(keys, options).lease

    def held_count(self) -> int:
        """Blocks under leases."""
        capture = self._times.time("snapshot", lambda: self.ledger.capture(now=self._now))
        return sum(lease.blocks for lease in capture.develop().leases)

    def release(self, lease: LeaseId) -> None:
        """End a lease."""
        now = self._tick()
        self._times.time("release", lambda: self.ledger.release(self._session, [lease], now=now))

    def reset(self, name: str = "reset") -> None:
        """Reset the space, and hand its slots back step by step."""
        space, _ = self.ledger.space_of(self._session)
        now = self._tick()
        self._times.time(name, lambda: self.ledger.reset(space, now=now))
        self._sweep()

    def abandon(self, count: int, size: int, keys: Callable[[int], Sequence[bytes]]) -> None:
        """Queue stores of new blocks, and end them all by a reset, by a cancel, and by the end of the session.

        Before the cancel, and once more, their copies begin; then they are only abandoned.

        Args:
            count: stores.
            size: blocks of each.
            keys: makes the keys of the first store, the second, and so on; nothing else keeps them, as in the daemon.
        """
        name = f"{count} stores of {size}"
        stores = [partial(keys, at) for at in range(count)]
        self._queue(stores)
        self.reset(f"reset, {name}")
        for begun in (False, True):
            ids = self._queue(stores)
            if begun:
                for each in ids:
                    self.ledger.start(self._session, each)
            now = self._tick()
            self._times.time(
                f"cancel, {name}{' running' if begun else ''}",
                partial(self.ledger.cancel, self._session, ids, now=now),
            )
            if begun:
                for each in ids:
                    self.ledger.finish(self._session, each, (), now=now)
            self._sweep()
        self._queue(stores)
        now = self._tick()
        self._times.time(
            f"end_session, {name}",
            lambda: self.ledger.end_session(self._session, SessionEnd.CLOSED, now=now),
        )
        self._sweep()
        self._open()

    def _queue(self, stores: Sequence[Callable[[], Sequence[bytes]]]) -> list[TransferId]:
        """Begin stores; the reports of earlier ones are acknowledged."""
        events = self.ledger.events(self._session, 0, 1 << 20)
        if events:
            self.ledger.acknowledge(self._session, events[-1][0])
        return [self._begin_store(keys(), StoreStatus.ACCEPTED).transfer for keys in stores]

    def _sweep(self) -> None:
        while self._times.time("sweep", self.ledger.sweep):
            pass

    def _open(self) -> None:
        self._session = self._new_session(SMALL)

    def _new_session(self, identity: Identity) -> SessionId:
        session = self._times.time(
            "open_session", lambda: self.ledger.open_session(identity, "bench", now=0.0)
        )
        self.ledger.open_stream(session)
        self.ledger.attach(session, 0, (Limits().max_keys,))
        return session

    def _finish(self, plan: TransferPlan, name: str) -> None:
        """The copies of a plan end well, and its engine hears of it."""
        now = self._tick()
        self.ledger.start(plan.session, plan.transfer)
        self._times.time(
            name, lambda: self.ledger.finish(plan.session, plan.transfer, (), now=now)
        )
        sequence, _ = self.ledger.events(self._session, 0, 1)[-1]
        self._times.time("acknowledge", lambda: self.ledger.acknowledge(self._session, sequence))
        self.ledger.take_told()
        self._times.time("expire", lambda: self.ledger.expire(now=now))

    def _begin_store(self, keys: Sequence[bytes], expected: StoreStatus) -> TransferPlan:
        plan = self._begin(keys, f"begin_store {len(keys)}")
        if plan.statuses != expected.value * len(keys):
            raise RuntimeError(f"not all of {len(keys)} blocks were {expected.name}")
        return plan

    def _begin(self, keys: Sequence[bytes], name: str) -> TransferPlan:
        self._serial += 1
        transfer, now = TransferId(self._serial), self._tick()
        _, generation = self.ledger.space_of(self._session)
        groups = [GroupBlocks(0, keys, range(len(keys)))]
        return self._times.time(
            name,
            lambda: self.ledger.begin_store(
                self._session, transfer, generation, groups, deadline_s=60.0, now=now
            ),
        )

    def _lookup(self, keys: Sequence[bytes], options: LookupOptions) -> LookupResult:
        now = self._tick()
        _, generation = self.ledger.space_of(self._session)
        groups = [GroupKeys(0, keys)]
        verb = "lookup" if options.hold is Hold.NONE else "hold"
        return self._times.time(
            f"{verb} {len(keys)}",
            lambda: self.ledger.lookup(self._session, generation, groups, options, now=now),
        )

    def _tick(self) -> float:
        self._now += 1e-3
        return self._now
