"""One engine, alone on a ledger, that has no device: it serves the requests of a trace one after the other.

For each request it makes the calls that an engine makes: a lookup that holds the hits, a load of them, a store of the
rest. A copy ends in the moment in which it begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
    Layout,
    LeaseId,
    StoreStatus,
    TransferId,
    TransferPlan,
)

from .trace import KEY_BYTES, Request

GENERATION = 1
"""Nobody resets."""

DEADLINE_S = 1.0
"""Nothing takes any time."""

_OPTIONS = LookupOptions(request="the only one at a time", hold=Hold.PREFIX)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pool did for a trace, in blocks, as the daemon counts it.

    Attributes:
        hits, misses: of the full blocks of all prompts.
        stored: copied into the pool.
        evicted: made room for others.
        turned_away: not stored, because there was no room that could be made.
    """

    hits: int
    misses: int
    stored: int
    evicted: int
    turned_away: int

    @property
    def hit_ratio(self) -> float:
        """Share of the blocks that were found; 0 before the first was asked for."""
        return self.hits / max(1, self.hits + self.misses)


class Engine:
    """An engine and the ledger that it is alone on.

    Args:
        slot_count: blocks that the pool holds.
        policy: one of POLICY_NAMES.
        longest: blocks of the longest prompt.

    Attributes:
        ledger: the books.
    """

    def __init__(self, slot_count: int, policy: str, longest: int) -> None:
        group = Group((1,))
        # One extent: it is of no use to divide a pool that has one size of slots.
        pool_bytes = slot_count * group.slot_bytes(world_size=1)
        self.ledger = Ledger(
            pool_bytes,
            pool_bytes,
            make_policy=partial(make_policy, policy),
            admission=Admission(threshold=1, limit=1),
            limits=Limits(max_keys=max(1, longest)),
        )
        identity = Identity(
            tenant="",
            model="replay",
            weights_version="",
            layout=Layout("none", 1, 1, "none", (group,)),
            key_scheme=KeyScheme("trace", KEY_BYTES, b""),
        )
        self._session = self.ledger.open_session(identity, "replay", now=0.0)
        self.ledger.attach(self._session, 0, (max(1, longest),))
        self.ledger.open_stream(self._session)
        self._last_transfer = 0
        self._last_event = 0

    def serve(self, request: Request) -> None:
        """Look a prompt up, load its hits and store the rest."""
        keys, now = request.keys, request.at
        if not keys:
            return
        found = self.ledger.lookup(
            self._session, GENERATION, [GroupKeys(0, keys)], _OPTIONS, now=now
        )
        hit_count = found.groups[0].hit_count
        if hit_count:
            self._load(keys[:hit_count], found.lease, now)
        if hit_count < len(keys):
            self._store(keys[hit_count:], now)

    def outcome(self) -> Outcome:
        """What happened so far."""
        (space,) = self.ledger.snapshot(now=0.0).spaces
        counters = space.counters
        return Outcome(
            hits=counters.hit_blocks,
            misses=counters.missed_blocks,
            stored=counters.stored_blocks,
            evicted=counters.evicted_blocks,
            turned_away=counters.offered[StoreStatus.NO_SPACE.name],
        )

    def _load(self, keys: Sequence[bytes], lease: LeaseId | None, now: float) -> None:
        plan = self.ledger.begin_load(
            self._session,
            self._next_transfer(),
            GENERATION,
            [GroupBlocks(0, keys, range(len(keys)))],
            lease=lease,
            deadline_s=DEADLINE_S,
            now=now,
        )
        self._copy(plan, now)

    def _store(self, keys: Sequence[bytes], now: float) -> None:
        plan = self.ledger.begin_store(
            self._session,
            self._next_transfer(),
            GENERATION,
            [GroupBlocks(0, keys, range(len(keys)))],
            deadline_s=DEADLINE_S,
            now=now,
        )
        if plan.copies:
            self._copy(plan, now)

    def _next_transfer(self) -> TransferId:
        self._last_transfer += 1
        return TransferId(self._last_transfer)

    def _copy(self, plan: TransferPlan, now: float) -> None:
        """Begin and end the copy of a transfer, and acknowledge its report."""
        self.ledger.start(self._session, plan.transfer)
        self.ledger.finish(self._session, plan.transfer, (), now=now)
        self._last_event += 1
        self.ledger.acknowledge(self._session, self._last_event)
