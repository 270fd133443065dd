"""A simulated session before a pool of its own that fills up: the books and the policy are the daemon's."""

from collections.abc import Sequence
from functools import partial

from engines.copies import Copy, Name
from engines.daemon import SimulatedSession
from engines.memory import Memory
from kvstow.client import Generation, Hits, Hold, Transfer, TransferState
from kvstow.client.hits import Blocks, Keys, by_group
from kvstow.server.core import types
from kvstow.server.core.admission import Admission
from kvstow.server.core.books import Limits
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.policy import make_policy

GENERATION = 1
DEADLINE_S = 1.0
MOST_BLOCKS = 1000
GROUP = types.Group((1,))


class EvictingSession(SimulatedSession):
    """One group, no reset, and copies that all end well.

    Args:
        slot_count: blocks that the pool holds.
        policy: which of them leave.

    Attributes:
        hit_count, asked_count: keys that lookups have found, and named.
    """

    def __init__(self, memory: Memory, slot_count: int, policy: str) -> None:
        super().__init__(memory)
        pool_bytes = slot_count * GROUP.slot_bytes(world_size=1)
        self.ledger = Ledger(
            pool_bytes,
            pool_bytes,
            make_policy=partial(make_policy, policy),
            admission=Admission(threshold=1, limit=1),
            limits=Limits(),
        )
        identity = types.Identity(
            "",
            "model",
            "",
            types.Layout("none", 2, 1, "none", (GROUP,)),
            types.KeyScheme("", 64, b""),
        )
        self._session = self.ledger.open_session(identity, "engine", now=0.0)
        self.ledger.attach(self._session, 0, (MOST_BLOCKS,))
        self.ledger.open_stream(self._session)
        self._plan: types.TransferPlan | None = None
        self._plans: dict[Transfer, types.TransferPlan] = {}
        self._leases: dict[str, types.LeaseId] = {}
        self._last_transfer = self._last_event = 0
        self.hit_count = self.asked_count = 0

    def lookup(
        self,
        request: str,
        keys: Keys,
        *,
        hold: Hold = Hold.PREFIX,
        want_states: bool = False,
        budget_s: float | None = None,
    ) -> Hits:
        hits = super().lookup(request, keys, hold=hold, want_states=want_states)
        found = self._ask(by_group(keys)[0], LookupOptions(request, types.Hold.PREFIX))
        assert found.groups[0].hit_count == hits.count
        if found.lease is not None:
            self._leases[request] = found.lease
        self.hit_count += hits.count
        self.asked_count += len(by_group(keys)[0])
        return hits

    def release(self, *requests: str) -> None:
        super().release(*requests)
        for request in requests:
            if request in self._leases:
                self.ledger.release(self._session, [self._leases.pop(request)], now=0.0)

    def store(self, keys: Keys, blocks: Blocks, generation: Generation) -> Transfer:
        self._plan = None
        return self._planned(super().store(keys, blocks, generation))

    def load(self, keys: Keys, blocks: Blocks, hits: Hits) -> Transfer:
        self._plan = self.ledger.begin_load(
            self._session,
            self._next_id(),
            GENERATION,
            [types.GroupBlocks(0, by_group(keys)[0], by_group(blocks)[0])],
            lease=self._leases.pop(hits.request),
            deadline_s=DEADLINE_S,
            now=0.0,
        )
        return self._planned(super().load(keys, blocks, hits))

    def end(self, copy: Copy, state: TransferState, failed: Sequence[int] = ()) -> None:
        plan = self._plans.pop(copy.transfer, None)
        super().end(copy, state, failed)
        if plan is not None:
            assert state is TransferState.DONE
            self._finish(plan)

    def store_others(self, count: int) -> None:
        """Another engine stores so many blocks of a prompt of its own."""
        keys = [b"other %d" % number for number in range(count)]
        plan = self._begin_store(keys, range(count))
        self._finish(plan)

    def _statuses(self, items: Sequence[tuple[Name, int]]) -> str:
        self._plan = self._begin_store(
            [key for (_, key), _ in items], [block for _, block in items]
        )
        return self._plan.statuses

    def _begin_store(self, keys: Sequence[bytes], blocks: Sequence[int]) -> types.TransferPlan:
        plan = self.ledger.begin_store(
            self._session,
            self._next_id(),
            GENERATION,
            [types.GroupBlocks(0, keys, blocks)],
            deadline_s=DEADLINE_S,
            now=0.0,
        )
        known = list(self.stored)
        if known:
            found = self._ask([key for _, key in known], LookupOptions(want_states=True))
            for name, state in zip(known, found.groups[0].states, strict=True):
                if state != types.KeyState.READY.value:
                    del self.stored[name]
        return plan

    def _finish(self, plan: types.TransferPlan) -> None:
        self.ledger.start(self._session, plan.transfer)
        self.ledger.finish(self._session, plan.transfer, (), now=0.0)
        self._last_event += 1
        self.ledger.acknowledge(self._session, self._last_event)
        self.ledger.check()

    def _planned(self, transfer: Transfer) -> Transfer:
        if self._plan is not None and self._plan.copies:
            self._plans[transfer] = self._plan
        return transfer

    def _ask(self, keys: Sequence[bytes], options: LookupOptions) -> types.LookupResult:
        return self.ledger.lookup(
            self._session, GENERATION, [types.GroupKeys(0, keys)], options, now=0.0
        )

    def _next_id(self) -> types.TransferId:
        self._last_transfer += 1
        return types.TransferId(self._last_transfer)
