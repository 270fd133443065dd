"""The counter of evictable blocks through a whole life, and what it is for: a store that cannot be served is refused by
counting, without asking the eviction policy anything.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import pytest

from core.engines import Engine, make_ledger
from kvstow.server.core.arc import Identify
from kvstow.server.core.policy import EvictionPolicy, Lru
from kvstow.server.core.types import TransferState

ALL = (1, 2, 3, 4)
"""As many blocks as there are slots."""


class WatchedLru(Lru):
    """Lru that remembers what it was asked since the last `watch`, until somebody recounts the books."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._watched = False

    def watch(self) -> None:
        """Forget what was asked before."""
        self.asked.clear()
        self._watched = True

    def insert(self, slots: Sequence[int]) -> None:
        self._remember("insert", len(slots))
        super().insert(slots)

    def restore(self, slots: Sequence[int]) -> None:
        self._remember("restore", len(slots))
        super().restore(slots)

    def withdraw(self, slots: Sequence[int]) -> None:
        self._remember("withdraw", len(slots))
        super().withdraw(slots)

    def touch(self, slots: Sequence[int]) -> None:
        self._remember("touch", len(slots))
        super().touch(slots)

    def refresh(self, slots: Sequence[int]) -> None:
        self._remember("refresh", len(slots))
        super().refresh(slots)

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        self._remember(f"evict {count}")
        return super().evict(count, protected)

    def order(self) -> Iterator[int]:
        self._remember("order")
        return super().order()

    def __len__(self) -> int:
        self._remember("length")
        return super().__len__()

    def check(self) -> None:
        self._watched = False
        super().check()

    def _remember(self, verb: str, count: int | None = None) -> None:
        if self._watched and count != 0:
            self.asked.append(verb if count is None else f"{verb} {count}")


class Pool:
    """Four slots, a policy that is watched, and one engine."""

    def __init__(self) -> None:
        self.policy = WatchedLru()
        self.engine = Engine(make_ledger(4, policy=self._make_policy))

    def _make_policy(self, _identify: Identify) -> EvictionPolicy:
        return self.policy

    @property
    def evictable(self) -> int:
        """The counter."""
        (table,) = self.engine.ledger.snapshot(now=0).tables
        return table.evictable

    @property
    def free(self) -> int:
        """Free slots."""
        (table,) = self.engine.ledger.snapshot(now=0).tables
        return table.free

    def offer(self, *keys: int) -> str:
        """Offer blocks; what the policy was asked before is forgotten."""
        self.policy.watch()
        return self.engine.begin_store(keys).statuses


@pytest.fixture
def pool() -> Pool:
    return Pool()


def test_the_life_of_the_counter(pool: Pool) -> None:
    engine = pool.engine
    store = engine.begin_store([1, 2, 3])
    assert pool.evictable == 0
    engine.finish(store)
    assert pool.evictable == 3

    first, second = engine.begin_load([1, 2]), engine.begin_load([1])
    assert pool.evictable == 1
    engine.finish(first)
    assert pool.evictable == 2
    engine.finish(second)
    assert pool.evictable == 3

    lease = engine.hold([1, 2, 3])
    assert pool.evictable == 0
    engine.release(lease)
    assert pool.evictable == 3

    engine.store([4])
    assert pool.evictable == 4
    failed = engine.begin_store([5, 6])
    assert (pool.evictable, pool.free) == (2, 0)
    assert engine.finish(failed, 0, 1) is TransferState.FAILED
    assert (pool.evictable, pool.free) == (2, 2)

    engine.reset()
    assert (pool.evictable, pool.free) == (0, 4)


def test_a_block_that_cannot_be_read_is_not_evictable_any_more(pool: Pool) -> None:
    pool.engine.store([1, 2])
    assert pool.engine.finish(pool.engine.begin_load([1, 2]), 1) is TransferState.FAILED
    assert (pool.evictable, pool.free) == (1, 3)


def test_what_is_read_across_a_reset_is_never_evictable_again(pool: Pool) -> None:
    engine = pool.engine
    engine.store([1, 2])
    load = engine.begin_load([1])
    engine.ledger.start(engine.session, load.transfer)
    engine.reset()
    assert (pool.evictable, pool.free) == (0, 3)
    assert engine.finish(load) is TransferState.ABANDONED
    assert (pool.evictable, pool.free) == (0, 4)


def hold_all(engine: Engine) -> None:
    """Everything is under a lease."""
    engine.store(ALL)
    engine.hold(ALL)


def load_all(engine: Engine) -> None:
    """Everything is being loaded."""
    engine.store(ALL)
    engine.begin_load(ALL)


def fill_all(engine: Engine) -> None:
    """Everything is being stored."""
    engine.begin_store(ALL)


def hold_load_and_fill(engine: Engine) -> None:
    """One slot for each reason, and one block for two."""
    engine.store([1, 2, 3])
    engine.hold([1, 2])
    engine.begin_load([2, 3])
    engine.begin_store([4])


@pytest.mark.parametrize("occupy", [hold_all, load_all, fill_all, hold_load_and_fill])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_refused_store_asks_the_policy_nothing(
    pool: Pool, occupy: Callable[[Engine], None], count: int
) -> None:
    occupy(pool.engine)
    assert (pool.evictable, pool.free) == (0, 0)
    assert pool.offer(*range(100, 100 + count)) == "N" * count
    assert pool.policy.asked == []


def test_blocks_of_the_same_offer_are_counted_out(pool: Pool) -> None:
    pool.engine.store(ALL)
    assert pool.offer(*ALL, 5, 6) == "SSSSNN"
    assert pool.policy.asked == ["refresh 4"]


def test_the_policy_is_asked_for_exactly_what_is_missing(pool: Pool) -> None:
    pool.engine.store([1, 2, 3])
    pool.engine.hold([1])
    assert pool.offer(5, 6, 7, 8) == "AAAN"
    assert [call for call in pool.policy.asked if call.startswith("evict")] == ["evict 2"]


def test_free_slots_are_taken_without_eviction(pool: Pool) -> None:
    pool.engine.store([1, 2])
    assert pool.offer(5, 6) == "AA"
    assert pool.policy.asked == []
