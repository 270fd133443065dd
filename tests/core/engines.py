"""Ledgers and engines for tests: short words for what a daemon and the engines on it do, with the books checked after
every step.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from kvstow.server.core.admission import Admission
from kvstow.server.core.arc import Identify
from kvstow.server.core.books import Limits
from kvstow.server.core.events import Event
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.policy import EvictionPolicy, Lru, make_policy
from kvstow.server.core.pool import PolicyFactory, Zeroes, no_tenant
from kvstow.server.core.types import (
    BlockFailure,
    Group,
    GroupBlocks,
    GroupKeys,
    Hold,
    Identity,
    KeyScheme,
    Layout,
    LeaseId,
    LookupResult,
    SessionEnd,
    SpaceId,
    TransferId,
    TransferPlan,
    TransferState,
)

SLOT_BYTES = 64
"""Size of a slot for one group of one segment of this size: the smallest that is not padded."""

DEADLINE_S = 60.0

BLOCK_COUNT = 1 << 20
"""Blocks that each rank of an engine has."""


def key(number: int) -> bytes:
    """The block hash that a test calls by a number."""
    return number.to_bytes(8, "big")


def identity(
    model: str = "m",
    *,
    weights: str = "1",
    block_bytes: Sequence[int] = (SLOT_BYTES,),
    world_size: int = 1,
    key_bytes: int = 8,
    tenant: str = "tenant",
) -> Identity:
    """An identity whose groups have one segment per block, of `block_bytes` each."""
    groups = tuple(Group((size,)) for size in block_bytes)
    layout = Layout("float32", 16, world_size, "test", groups)
    return Identity(tenant, model, weights, layout, KeyScheme("test", key_bytes, b""))


def named_policy(name: str) -> PolicyFactory:
    """A factory of the policy with this name."""
    return lambda identify: make_policy(name, identify)


def lru(_identify: Identify) -> EvictionPolicy:
    """A factory of `Lru`."""
    return Lru()


def make_ledger(
    slot_count: int,
    *,
    extent_bytes: int | None = None,
    policy: PolicyFactory = lru,
    threshold: int = 1,
    limits: Limits | None = None,
    zeroes: Zeroes = no_tenant,
) -> Ledger:
    """A ledger over a pool of `slot_count` slots of SLOT_BYTES, in one extent unless its size is given."""
    pool_bytes = slot_count * SLOT_BYTES
    return Ledger(
        pool_bytes,
        extent_bytes or pool_bytes,
        make_policy=policy,
        admission=Admission(threshold, limit=64),
        limits=limits or Limits(),
        zeroes=zeroes,
    )


class Engine:
    """One session on a ledger, attached and with an open stream; a key's bytes lie in the block of the same number."""

    def __init__(self, ledger: Ledger, space: Identity | None = None) -> None:
        self.ledger = ledger
        self.now = 0.0
        found = space or identity()
        self.session = ledger.open_session(found, "engine", now=self.now)
        for rank in range(found.layout.world_size):
            ledger.attach(self.session, rank, (BLOCK_COUNT,) * len(found.layout.groups))
        ledger.open_stream(self.session)
        self._last_transfer = 0
        self._acknowledged = 0

    @property
    def space(self) -> SpaceId:
        """Its space."""
        return self.ledger.space_of(self.session)[0]

    @property
    def generation(self) -> int:
        """Current generation of its space."""
        return self.ledger.space_of(self.session)[1]

    def begin_store(self, *groups: Iterable[int]) -> TransferPlan:
        """Offer these keys of group 0, 1, ... under the next transfer id."""
        with self._step():
            return self.ledger.begin_store(
                self.session,
                self._next_transfer(),
                self.generation,
                _blocks(groups),
                deadline_s=DEADLINE_S,
                now=self.now,
            )

    def begin_load(self, *groups: Iterable[int], lease: LeaseId | None = None) -> TransferPlan:
        """Ask for these keys of group 0, 1, ... under the next transfer id."""
        with self._step():
            return self.ledger.begin_load(
                self.session,
                self._next_transfer(),
                self.generation,
                _blocks(groups),
                lease=lease,
                deadline_s=DEADLINE_S,
                now=self.now,
            )

    def finish(self, plan: TransferPlan, *failed_positions: int) -> TransferState | None:
        """Start the copies of a plan and end them; those at these positions failed on rank 0."""
        with self._step():
            self.ledger.start(self.session, plan.transfer)
        with self._step():
            failures = [BlockFailure(position, 0, "broken") for position in failed_positions]
            return self.ledger.finish(self.session, plan.transfer, failures, now=self.now)

    def store(self, *groups: Iterable[int]) -> str:
        """Store these keys, copies included; returns the letters of the answer."""
        plan = self.begin_store(*groups)
        if plan.copies:
            assert self.finish(plan) is TransferState.DONE
        return plan.statuses

    def load(self, *groups: Iterable[int]) -> None:
        """Load these keys, copies included."""
        assert self.finish(self.begin_load(*groups)) is TransferState.DONE

    def lookup(self, *groups: Iterable[int], request: str = "") -> LookupResult:
        """Look these keys up, state by state; the leading hits are held when a request is named."""
        hold = Hold.PREFIX if request else Hold.NONE
        asked = [GroupKeys(at, [key(number) for number in keys]) for at, keys in enumerate(groups)]
        options = LookupOptions(request, hold, want_states=True)
        with self._step():
            return self.ledger.lookup(self.session, self.generation, asked, options, now=self.now)

    def hold(self, keys: Iterable[int], request: str = "request") -> LeaseId:
        """Put the leading READY keys under a lease."""
        lease = self.lookup(keys, request=request).lease
        assert lease is not None
        return lease

    def release(self, *leases: LeaseId) -> int:
        """Give leases back."""
        with self._step():
            return self.ledger.release(self.session, leases, now=self.now)

    def states(self, keys: Iterable[int]) -> str:
        """One letter per key of group 0."""
        return self.lookup(keys).groups[0].states

    def reset(self) -> None:
        """Reset the space."""
        with self._step():
            self.ledger.reset(self.space, now=self.now)

    def end(self) -> None:
        """The process dies."""
        with self._step():
            self.ledger.end_session(self.session, SessionEnd.PROCESS_DIED, now=self.now)

    def read(self) -> list[Event]:
        """Take everything from the stream and acknowledge it."""
        with self._step():
            numbered = self.ledger.events(self.session, self._acknowledged, 1 << 20)
            self._acknowledged = numbered[-1][0] if numbered else self._acknowledged
            self.ledger.acknowledge(self.session, self._acknowledged)
            return [event for _, event in numbered]

    def _next_transfer(self) -> TransferId:
        self._last_transfer += 1
        return TransferId(self._last_transfer)

    @contextmanager
    def _step(self) -> Iterator[None]:
        self.now += 1
        yield
        self.ledger.check()


def _blocks(groups: Sequence[Iterable[int]]) -> list[GroupBlocks]:
    return [
        GroupBlocks(at, [key(number) for number in numbers], numbers)
        for at, numbers in enumerate(map(list, groups))
    ]
