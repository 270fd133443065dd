"""A session: what an engine calls.

No method blocks longer than its budget, and none of `lookup`, `store` and `load` raises because
the daemon is away, slow or shutting down: that is a miss, or a transfer that FAILED. What raises
is a request that is wrong or came too late (`Refused`, `ValueError`).

All methods may be called from several threads. Callbacks run on the session's own thread, rarely
on gRPC's; they must not block, because the reports of transfers wait for them, and must not close
the session.
A session does not survive a fork: in the forked process every lookup misses and every transfer
FAILED. Open a client in the process that uses it.
"""

import threading
import time
from collections.abc import Sequence

from kvstow.v1 import cache_pb2, identity_pb2

from .calls import Budgets, Calls
from .closing import Closing
from .counters import Counters, Tally
from .events import Callbacks, SessionEvents
from .hits import Blocks, Hits, Keys, by_group, pack_blocks, pack_keys
from .lookups import Hold, Lookups
from .opener import Opener
from .process import this_process
from .ranks import RankMemory, Ranks
from .resets import ResetResult, Resets
from .standing import Generation, SessionState, Snapshot, Standing, Ticket
from .transfer import Transfer
from .transfers import Transfers
from .upkeep import Upkeep


class Session(Closing):
    """One engine's session at the daemon; made by `Client.open`."""

    def __init__(
        self,
        calls: Calls,
        identity: identity_pb2.Identity,
        name: str,
        budgets: Budgets,
        callbacks: Callbacks,
    ) -> None:
        self._calls = calls
        self._budgets = budgets
        self._key_bytes = identity.key_scheme.key_bytes
        self._standing = Standing()
        self._tally = Tally()
        self._ranks = Ranks(calls, self._standing, budgets.control_s)
        self._lookups = Lookups(calls, self._standing, self._tally, budgets.control_s)
        self._transfers = Transfers(calls, self._standing, self._tally, budgets)
        self._resets = Resets(calls, self._standing, budgets.control_s)
        request = cache_pb2.OpenSessionRequest(
            identity=identity, name=name, process=this_process()
        )
        opener = Opener(calls, budgets, self._standing, self._ranks, self._tally, request)
        events = SessionEvents(self._standing, self._tally, callbacks)
        limit_s = budgets.control_s
        self._upkeep = Upkeep(calls, limit_s, self._standing, opener, events)
        self._closing = threading.Lock()
        self._drained = True

    def start(self, must_connect: bool) -> None:
        """For `Client.open` only; see there."""
        self._upkeep.start(must_connect)

    @property
    def state(self) -> SessionState:
        """Whether the daemon is there; only while OPEN anything is found or stored."""
        return self._standing.state

    @property
    def generation(self) -> Generation:
        """The current generation, for KV whose computation begins now."""
        return self._standing.generation

    @property
    def ticket(self) -> Ticket | None:
        """What ranks in other processes attach with; None while the session is not open."""
        return self._standing.ticket

    def snapshot(self) -> Snapshot:
        """All of these, and how much one call may name, as they are at one instant."""
        return self._standing.snapshot()

    def counters(self) -> Counters:
        """What was counted until now."""
        return self._tally.snapshot(self._calls.breaker.state, self._standing.unfinished_count)

    def attach(
        self,
        rank: int,
        regions: Sequence[cache_pb2.Region],
        groups: Sequence[cache_pb2.GroupMemory],
        fences: Sequence[cache_pb2.CudaEvent] = (),
    ) -> None:
        """Register the memory of a rank that lives in this process.

        It is attached again whenever the session is opened again, until `detach` or `close`. If
        the daemon is away, it is attached when the daemon is back.

        Args:
            rank: 0 to the layout's world size - 1.
            regions: the allocations, each once; they must outlive the session.
            groups: for each group of the layout, where its blocks lie in the regions.
            fences: the rank's ring (`ipc.FenceRing`), of a rank on a GPU; it must outlive the session, too.

        Raises:
            ValueError: the rank is attached already.
            Refused: the daemon cannot or does not map it.
            Unreachable: the daemon did not answer; the rank is attached when it does.
        """
        self._ranks.attach(RankMemory(rank, regions, groups, fences))

    def detach(self, rank: int, wait_s: float = 0.0) -> bool:
        """Take the memory of a rank back; its queued and running transfers are abandoned.

        Returns:
            True if no copy touches the memory any more, so that it may be freed or reused. If
            not within `wait_s`, call again.

        Raises:
            Refused, Unreachable: the memory may be in use still.
        """
        return self._ranks.detach(rank, max(0.0, wait_s))

    def lookup(
        self,
        request: str,
        keys: Keys,
        *,
        hold: Hold = Hold.PREFIX,
        ttl_s: float = 0.0,
        touch: bool = False,
        want_states: bool = False,
        skip_reading: bool = False,
        budget_s: float | None = None,
    ) -> Hits:
        """Count the leading keys of each group that are stored, and keep them from eviction.

        Args:
            request: the engine's name for its request; a repeated lookup replaces its lease.
            keys: in prefix order. None at all are answered without asking.
            hold: what to put under a lease, until `load`, `release` or `ttl_s` ends it.
            ttl_s: life of the lease in seconds; 0 for the longest there is.
            touch: count the hits as used also without a hold.
            want_states: say the state of every key.
            skip_reading: the request must not read the cache. Nothing is asked, counted or held,
                what the request held is released, and the hits are empty; their generation is
                what the request's `store` needs.
            budget_s: how long to wait at most, 0 or less for not at all; by default the session's
                budget.

        Raises:
            Refused: the request is wrong, or the session has too many leases.
            ValueError: a key has the wrong length.
        """
        groups = by_group(keys)
        if skip_reading or not groups:
            self._lookups.release([request])
            return self._lookups.miss(request, groups, "not asked")
        message = cache_pb2.LookupRequest(
            request=request,
            groups=pack_keys(groups, self._key_bytes),
            hold=hold.value,
            lease_ttl_s=ttl_s,
            touch=touch,
            want_states=want_states,
        )
        budget_s = self._budgets.lookup_s if budget_s is None else budget_s
        return self._lookups.ask(message, groups, max(0.0, budget_s))

    def store(
        self,
        keys: Keys,
        blocks: Blocks,
        generation: Generation,
        *,
        fence: int | None = None,
        deadline_s: float = 0.0,
        budget_s: float | None = None,
    ) -> Transfer:
        """Offer blocks; the daemon copies those that are new to it and for which it has room.

        The blocks must be written completely, on every rank, or will be when the fence is reached,
        and must not change until the transfer has ended.

        Args:
            keys, blocks: what lies where, one block id for each key.
            generation: the one that was current when the computation of the KV began: of the
                request's `Hits`, or `Session.generation` at that time.
            fence: which fence of its ring every rank recorded behind the work that writes the
                blocks; None: that work has ended.
            deadline_s: after how long the copy is reported overdue; 0 for the longest there is.
            budget_s: how long to wait for the daemon's answer; by default the session's budget.

        Raises:
            Refused: the request is wrong; or STALE_GENERATION: the KV is older than the space's
                content, discard it.
            ValueError: keys and blocks do not match, or a key has the wrong length.
        """
        groups = pack_blocks(keys, blocks, self._key_bytes)
        request = cache_pb2.StoreRequest(groups=groups, deadline_s=deadline_s, fence=fence)
        return self._transfers.send(self._calls.cache.Store, request, generation, budget_s)

    def load(
        self,
        keys: Keys,
        blocks: Blocks,
        hits: Hits,
        *,
        fence: int | None = None,
        deadline_s: float = 0.0,
        budget_s: float | None = None,
    ) -> Transfer:
        """Copy stored blocks into blocks of the engine.

        Nothing may read or write the blocks until the transfer has ended, but what comes before
        the fence; only when it is DONE do they hold their bytes.

        Args:
            keys, blocks: what goes where, one block id for each key; all keys must be stored.
            hits: what a lookup said of them. Its lease is used up.
            fence: which fence of its ring every rank recorded behind the last work that uses the
                blocks for what they held before; None: that work has ended.
            deadline_s, budget_s: as for `store`.

        Raises:
            Refused: the request is wrong; or KEY_NOT_READY: a key is not stored (any more); or
                STALE_GENERATION: look up again. The lease is as it was.
            ValueError: keys and blocks do not match, or a key has the wrong length.
        """
        groups = pack_blocks(keys, blocks, self._key_bytes)
        request = cache_pb2.LoadRequest(
            groups=groups, lease_id=hits.lease_id, deadline_s=deadline_s, fence=fence
        )
        transfer = self._transfers.send(self._calls.cache.Load, request, hits.generation, budget_s)
        if transfer.id:
            self._standing.drop_lease(hits.request, hits.lease_id)
        return transfer

    def release(self, *requests: str) -> None:
        """End what lookups hold for these requests, without waiting for it."""
        self._lookups.release(requests)

    def cancel(self, *transfers: Transfer) -> None:
        """Say that the results of transfers are not wanted, without waiting for it.

        Each still ends by its report; until then its blocks are its own.
        """
        self._transfers.cancel(transfers)

    def reset(self, wait_s: float = 0.0) -> ResetResult:
        """Empty the space, for every engine that shares it, and begin a new generation.

        From the moment it returns or raises, nothing stored before is found by this session, and
        nothing computed before is stored.

        Args:
            wait_s: how long to wait for copies that are running and whose results are void now.

        Raises:
            Unreachable: the daemon did not answer. The reset is owed: it is made as soon as the
                daemon is back, and until then every lookup is a miss.
        """
        return self._resets.make(max(0.0, wait_s))

    def close(self, wait_s: float = 5.0) -> bool:
        """End the session; what was stored stays.

        Args:
            wait_s: how long to wait for transfers that have not ended.

        Returns:
            True if no copy touches the memory of this process's ranks any more. Otherwise the
            transfers left are LOST, and this process must not reuse it. Repeated: the same.

        Raises:
            RuntimeError: called by a callback of the session; nothing was closed.
        """
        self._upkeep.check_thread()
        with self._closing:
            if self.state is not SessionState.CLOSED:
                self._drained = self._drain(wait_s)
                self._upkeep.close()
            return self._drained

    def _drain(self, wait_s: float) -> bool:
        until = time.monotonic() + wait_s
        self._standing.wait_ended(wait_s)
        if self.state is not SessionState.AWAY:
            self._ranks.detach_all(until)
        return self._standing.wait_ended(until - time.monotonic())
