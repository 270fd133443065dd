"""A session that copies when a test says so, between the memory of a simulated engine and a dictionary.

It keeps the promises of `kvstow.client.Session` and checks those of its caller: a block must not change under a store
nor be touched under a load, nothing computed before a reset may be stored after it, and what is held is given back.
"""

import itertools
from collections.abc import Sequence

from engines.copies import Copy, Faults, Name, names_written
from engines.lookups import held_by, items_of, states_of
from engines.memory import Content, Memory
from kvstow.client import (
    BlockFailures,
    BreakerState,
    Counters,
    Generation,
    GroupHits,
    Hits,
    Hold,
    Refused,
    ResetResult,
    SessionState,
    Ticket,
    Transfer,
    TransferState,
    Unreachable,
)
from kvstow.client.engines.offload.epochs import HeardResets
from kvstow.client.hits import Blocks, Keys, by_group
from kvstow.client.standing import Snapshot
from kvstow.client.terms import Terms
from kvstow.v1 import cache_pb2


class SimulatedSession:
    """One session, and the space behind it.

    Attributes:
        stored: what is READY.
        copies: transfers that have not ended.
        leases: what each request holds.
        attached: openings that all ranks are attached to.
        faults: what goes wrong.
        heard: what the session hears.
        lookups: requests that were looked up.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.state = SessionState.OPEN
        self.ticket: Ticket | None = Ticket("boot 1", 1)
        self.generation = Generation(0, 1)
        self.stored: dict[Name, Content] = {}
        self.copies: list[Copy] = []
        self.leases: dict[str, set[Name]] = {}
        self.attached: set[Ticket] = set()
        self.faults = Faults()
        self.heard = HeardResets()
        self.lookups: list[str] = []
        self._ids = itertools.count(1)

    # What an engine calls.

    def snapshot(self) -> Snapshot:
        terms = Terms(max_keys=self.faults.max_keys, max_transfers=self.faults.max_transfers)
        return Snapshot(self.state, self.ticket, self.generation, terms)

    def counters(self) -> Counters:
        """Nothing is counted here."""
        return Counters(0, 0, 0, 0, 0, 0, {}, {}, 0, 0, BreakerState.CLOSED, len(self.copies))

    def lookup(
        self,
        request: str,
        keys: Keys,
        *,
        hold: Hold = Hold.PREFIX,
        want_states: bool = False,
        budget_s: float | None = None,
    ) -> Hits:
        self.lookups.append(request)
        groups = by_group(keys)
        self._count(keys)
        if self.state is not SessionState.OPEN or self.faults.reset_owed or self.faults.silent:
            return Hits(
                request, self.generation, {g: GroupHits() for g in groups}, missed_because="away"
            )
        self.leases.pop(request, None)
        states, counts = states_of(self.stored, groups)
        held = held_by(hold, groups, states, counts)
        if held:
            self.leases[request] = held
        found = {
            group: GroupHits(counts[group], 0, states[group] if want_states else "")
            for group in groups
        }
        return Hits(request, self.generation, found, lease_id=int(bool(held)))

    def store(self, keys: Keys, blocks: Blocks, generation: Generation) -> Transfer:
        items = items_of(keys, blocks)
        self._count(keys)
        if (unsent := self._check(generation)) is not None:
            return unsent
        statuses = self._statuses(items)
        accepted = [position for position, status in enumerate(statuses) if status == "A"]
        transfer = self._begin(items, True, accepted, generation, statuses)
        if not self.faults.silent:
            transfer.statuses = statuses
            if not accepted:
                self.copies = [copy for copy in self.copies if copy.transfer is not transfer]
                transfer.end(TransferState.DONE)
        return transfer

    def load(self, keys: Keys, blocks: Blocks, hits: Hits) -> Transfer:
        items = items_of(keys, blocks)
        self._count(keys)
        if (unsent := self._check(hits.generation)) is not None:
            return unsent
        if any(name not in self.stored for name, _ in items):
            raise Refused("KEY_NOT_READY", "a key is not stored", "", {})
        self.leases.pop(hits.request, None)
        return self._begin(items, False, list(range(len(items))), hits.generation, "")

    def release(self, *requests: str) -> None:
        for request in requests:
            self.leases.pop(request, None)

    def cancel(self, *transfers: Transfer) -> None:
        for transfer in transfers:
            transfer.unwanted = True

    def reset(self) -> ResetResult:
        self._begin_era()
        self._memory.version += 1
        if self.state is not SessionState.OPEN or self.faults.silent:
            self.faults.reset_owed = True
            raise Unreachable("no answer")
        return self._reset()

    def close(self, wait_s: float = 0.0) -> bool:
        self.state = SessionState.CLOSED
        return not self.copies

    # What happens at the daemon.

    def end(self, copy: Copy, state: TransferState, failed: Sequence[int] = ()) -> None:
        """A copy ends; a store has read and a load has written its blocks by now."""
        self.copies.remove(copy)
        if copy.generation != self.generation and state is not TransferState.LOST:
            state, failed = TransferState.ABANDONED, ()
        if copy.is_store:
            self._end_store(copy, state, failed)
        else:
            self._end_load(copy, state, failed)
        copy.transfer.statuses = copy.statuses
        failures = [BlockFailures(0, "broken", tuple(failed))] if failed else []
        copy.transfer.end(state, "", failures)

    def attach(self) -> dict[int, Ticket]:
        """The one rank attaches its memory; returns what it is attached to."""
        if self.ticket is not None and not self.faults.slow:
            self.attached.add(self.ticket)
        return {0: self.ticket} if self.ticket in self.attached and self.ticket else {}

    def evict(self, name: Name) -> bool:
        """Evict a key, unless it is held."""
        held = set[Name]().union(*self.leases.values(), *(copy.held for copy in self.copies))
        if name in held:
            return False
        return self.stored.pop(name, None) is not None

    def reset_by_another(self) -> None:
        """Another engine empties the space."""
        if self.state is SessionState.OPEN and not self.faults.reset_owed:
            self._memory.version += 1
            self._reset()
            self.heard.hear(cache_pb2.SpaceReset(generation=self.generation.number))

    def die(self) -> None:
        """The daemon is killed: its copies have stopped, its content is gone."""
        if self.ticket is None:
            return
        self.ticket, self.state = None, SessionState.AWAY
        self._begin_era()
        self.stored.clear()
        while self.copies:
            self.end(self.copies[0], TransferState.LOST)

    def come_back(self, *, unheard: bool = False) -> None:
        """A new daemon is there; unheard: others have reset the space of the old one while nobody listened here."""
        if self.ticket is None:
            if unheard:
                self._miss_resets()
            self._reopen(f"boot {next(self._ids)}")
        self.settle_reset()

    def come_back_to_another_space(self) -> None:
        """The daemon has forgotten the space while nobody used it, after others had reset it."""
        if self.ticket is not None:
            boot_id = self.ticket.boot_id
            self.die()
            self._miss_resets()
            self._reopen(boot_id)
        self.settle_reset()

    def _miss_resets(self) -> None:
        """Others reset the space meanwhile; the session says that it may have been so."""
        self._memory.version += 1
        self.heard.hear(cache_pb2.Resync())

    def _reopen(self, boot_id: str) -> None:
        self.ticket = Ticket(boot_id, next(self._ids))
        self.generation = Generation(self.generation.era, 1)
        self.state, self.faults.silent = SessionState.OPEN, False
        self.heard.hear_reopening()

    def settle_reset(self) -> None:
        """A reset that is owed is made."""
        if self.faults.reset_owed and self.state is SessionState.OPEN:
            self._reset()

    def _check(self, generation: Generation) -> Transfer | None:
        if self.state is not SessionState.OPEN or self.faults.reset_owed:
            transfer = Transfer()
            transfer.end(TransferState.FAILED, "away")
            return transfer
        if generation != self.generation:
            raise Refused("STALE_GENERATION", "too old", "", {})
        if self.ticket not in self.attached:
            raise Refused("NOT_ATTACHED", "a rank is missing", "", {})
        if len(self.copies) >= self.faults.max_transfers:
            raise Refused("TOO_MANY_TRANSFERS", "too many are under way", "", {})
        return None

    def _count(self, keys: Keys) -> None:
        count = sum(map(len, by_group(keys).values()))
        assert count <= self.faults.max_keys, f"{count} keys in one call"

    def _statuses(self, items: Sequence[tuple[Name, int]]) -> str:
        writing = names_written(self.copies, self.generation)
        return "".join(self._status(name, writing) for name, _ in items)

    def _status(self, name: Name, writing: set[Name]) -> str:
        if name in self.stored:
            return "S"
        if name in writing or self.faults.busy:
            return "W"
        if self.faults.declines(name):
            return "D"
        return "N" if self.faults.full else "A"

    def _begin(
        self,
        items: list[tuple[Name, int]],
        is_store: bool,
        accepted: list[int],
        generation: Generation,
        statuses: str,
    ) -> Transfer:
        transfer = Transfer(next(self._ids))
        before = [self._memory.content[block] for _, block in items]
        copy = Copy(transfer, is_store, items, before, accepted, generation, statuses)
        for other in self.copies:
            if not (is_store and other.is_store):
                assert not other.blocks & copy.blocks, "two copies touch a block"
        if not is_store:
            copy.held = [name for name, _ in items]
            self._memory.loading |= copy.blocks
        self.copies.append(copy)
        return transfer

    def _end_store(self, copy: Copy, state: TransferState, failed: Sequence[int]) -> None:
        for position in copy.accepted:
            name, block = copy.items[position]
            now = self._memory.content[block]
            assert now == copy.before[position], f"block {block} changed under a store"
            if state is TransferState.LOST or position in failed:
                continue
            if state is not TransferState.ABANDONED and copy.generation == self.generation:
                assert now == Content(*name, self._memory.version), f"{now} stored as {name}"
                self.stored[name] = now

    def _end_load(self, copy: Copy, state: TransferState, failed: Sequence[int]) -> None:
        self._memory.loading -= copy.blocks
        for position, (name, block) in enumerate(copy.items):
            copied = state in (TransferState.DONE, TransferState.FAILED)
            done = copied and position not in failed
            self._memory.content[block] = self.stored[name] if done else Memory.GARBAGE

    def _reset(self) -> ResetResult:
        self.generation = Generation(self.generation.era, self.generation.number + 1)
        self.stored.clear()
        self.leases.clear()
        return ResetResult(0, 0, 0, 0, not self.copies)

    def _begin_era(self) -> None:
        self.generation = Generation(self.generation.era + 1, self.generation.number)
        self.leases.clear()
