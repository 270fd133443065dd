"""What both eviction policies promise, what Arc adds, and what their `check` finds."""

from collections.abc import Collection

import pytest

from kvstow.server.core.arc import Arc
from kvstow.server.core.errors import BooksError
from kvstow.server.core.policy import POLICY_NAMES, Lru, make_policy
from kvstow.server.core.slot_lists import SlotLists

NOTHING: frozenset[int] = frozenset()


class Pool:
    """A pool that stores blocks on demand, as the ledger does it: room first, entry afterwards."""

    def __init__(self, policy_name: str, slot_count: int) -> None:
        self.blocks: dict[int, int] = {}
        self.free = list(range(slot_count))
        self.policy = make_policy(policy_name, lambda slots: [self.blocks[slot] for slot in slots])
        self.policy.grow(slot_count)

    def slots_of(self, blocks: Collection[int]) -> list[int]:
        slots = {block: slot for slot, block in self.blocks.items()}
        return [slots[block] for block in blocks]

    def store(self, blocks: Collection[int]) -> None:
        victims = self.policy.evict(max(0, len(blocks) - len(self.free)), NOTHING)
        for slot in victims:
            del self.blocks[slot]
        self.free += victims
        slots = [self.free.pop() for _ in blocks]
        self.blocks.update(zip(slots, blocks, strict=True))
        self.policy.insert(slots)

    def use(self, blocks: Collection[int]) -> bool:
        """Use blocks if all are there, else store those that are not; says whether all were there."""
        missing = [block for block in blocks if block not in self.blocks.values()]
        self.policy.touch(self.slots_of([block for block in blocks if block not in missing]))
        self.store(missing)
        return not missing

    def order(self) -> list[int]:
        """Blocks, the next victim first."""
        return [self.blocks[slot] for slot in self.policy.order()]


@pytest.fixture(params=POLICY_NAMES)
def policy_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_tails_are_evicted_before_heads(policy_name: str) -> None:
    pool = Pool(policy_name, 8)
    pool.store([1, 2, 3])
    pool.store([4, 5])
    assert pool.order() == [3, 2, 1, 5, 4]
    pool.policy.touch(pool.slots_of([1, 2]))
    assert pool.order() == [3, 5, 4, 2, 1]
    pool.policy.refresh(pool.slots_of([4, 5]))
    pool.policy.refresh(pool.slots_of([1, 2]))
    pool.policy.check()
    assert pool.order() == [3, 5, 4, 2, 1]
    held = pool.slots_of([4, 5])
    pool.policy.withdraw(held)
    assert pool.order() == [3, 2, 1]
    pool.policy.restore(held)
    assert pool.order() == [3, 2, 1, 5, 4]


def test_a_slot_named_twice_in_a_touch_counts_at_its_first_place(policy_name: str) -> None:
    pool = Pool(policy_name, 4)
    pool.store([1, 2, 3, 4])
    pool.policy.touch(pool.slots_of([3, 2, 3, 3, 1, 2]))
    pool.policy.check()
    assert pool.order() == [4, 1, 2, 3]


def test_protected_blocks_stay_and_the_next_coldest_go(policy_name: str) -> None:
    pool = Pool(policy_name, 4)
    for block in (2, 1, 3, 4):
        pool.store([block])
    protected = set(pool.slots_of([2]))
    assert pool.policy.evict(3, protected) == pool.slots_of([1, 3, 4])
    assert pool.order() == [2]


def test_more_victims_than_there_are_is_our_own_mistake_and_changes_nothing(
    policy_name: str,
) -> None:
    pool = Pool(policy_name, 4)
    pool.store([1, 2, 3, 4])
    pool.policy.withdraw(pool.slots_of([4]))
    with pytest.raises(BooksError, match="3 victims wanted, 2 of 3 can be had"):
        pool.policy.evict(3, set(pool.slots_of([1, 4])))
    pool.policy.check()
    assert len(pool.policy) == 3
    assert pool.order() == [3, 2, 1]


def test_a_scan_leaves_used_blocks_alone_under_arc_and_flushes_them_under_lru() -> None:
    hit_counts = {}
    for name in POLICY_NAMES:
        pool = Pool(name, 8)
        hit_counts[name] = 0
        pool.use([1, 2, 3, 4])
        for round_number in range(1, 21):
            pool.use([1, 2, 3, 4])  # twice in a row: no policy can tell them from a scan otherwise
            for block in range(10 * round_number, 10 * round_number + 8):
                pool.store([block])
            hit_counts[name] += pool.use([1, 2, 3, 4])
            pool.policy.check()
    assert hit_counts == {"lru": 0, "arc": 20}


def test_arc_gives_room_to_whichever_list_lost_a_block_that_came_back() -> None:
    pool = Pool("arc", 4)
    pool.store([1, 2])
    pool.policy.touch(pool.slots_of([1, 2]))
    pool.store([3, 4])
    pool.store([5])  # evicts 4, the tail of what was seen once
    assert pool.order() == [3, 5, 2, 1]
    pool.store([4])  # evicts 3; 4 is remembered, so what is seen once may keep a block from now on
    assert pool.order() == [2, 1, 4, 5]
    pool.store([6])  # evicts 2, as 5 alone is no more than its share
    assert pool.order() == [5, 1, 4, 6]
    pool.store([2])  # evicts 5; 2 is remembered too, so the share is taken back
    assert pool.order() == [6, 1, 4, 2]


def test_a_block_offered_again_is_warm_but_not_used_under_arc() -> None:
    pool = Pool("arc", 6)
    pool.store([1, 2, 3, 4])
    pool.policy.touch(pool.slots_of([1, 2]))
    pool.policy.refresh(pool.slots_of([2, 4]))
    pool.policy.check()
    assert pool.order() == [3, 4, 1, 2]


def test_arc_takes_the_head_of_a_prefix_to_be_known_when_its_tail_is() -> None:
    pool = Pool("arc", 6)
    pool.store([1, 2, 3])
    pool.policy.touch(pool.slots_of([1, 2, 3]))
    pool.store([4, 5, 6])
    pool.store([7])
    assert pool.order() == [5, 4, 7, 3, 2, 1]
    pool.store([8, 6, 9])  # 6 is remembered, so 8 before it counts as used and 9 after it does not
    assert pool.order() == [3, 2, 1, 6, 8, 9]


def test_what_is_offered_before_a_used_block_is_not_used_for_that_under_arc() -> None:
    pool = Pool("arc", 6)
    pool.store([1, 2, 3, 4])
    pool.policy.touch(pool.slots_of([3]))
    pool.policy.refresh(pool.slots_of([4, 3]))
    pool.policy.check()
    assert pool.order() == [2, 1, 4, 3]


def test_arc_remembers_nothing_of_dropped_blocks() -> None:
    pool = Pool("arc", 2)
    pool.store([1, 2])
    dropped = pool.slots_of([1, 2])
    pool.policy.withdraw(dropped)
    pool.free += dropped
    pool.store([1, 3])
    pool.policy.touch(pool.slots_of([3]))
    assert pool.order() == [1, 3]


@pytest.mark.parametrize(("used", "order"), [(False, [0, 2, 3]), (True, [3, 0, 2])])
def test_arc_forgets_the_oldest_victims_beyond_its_limit(used: bool, order: list[int]) -> None:
    policy = Arc(list, ghost_limit=2)
    policy.grow(4)
    policy.insert([0, 1, 2, 3])
    policy.touch([0, 1, 2, 3] if used else [])
    assert policy.evict(3, NOTHING) == [3, 2, 1]
    policy.insert([3])  # forgotten, so entered as seen once
    policy.insert([2])  # remembered, so entered as used
    assert list(policy.order()) == order
    policy.check()


def test_growing_keeps_the_order(policy_name: str) -> None:
    pool = Pool(policy_name, 3)
    pool.store([1, 2, 3])
    before = pool.order()
    for slot_limit in (5, 5, 2, 9):
        pool.policy.grow(slot_limit)
        pool.policy.check()
    assert pool.order() == before
    pool.blocks[8] = 4
    pool.policy.insert([8])
    assert pool.order() == [*before, 4]


def test_a_policy_is_made_by_name_and_an_unknown_name_is_answered_with_the_known_ones() -> None:
    assert isinstance(make_policy("lru", list), Lru)
    assert isinstance(make_policy("arc", list), Arc)
    with pytest.raises(ValueError, match="'fifo'; there are: lru, arc"):
        make_policy("fifo", list)


def test_check_finds_a_link_without_counterpart() -> None:
    lists = SlotLists(end_count=2)
    lists.grow(4)
    lists.push(-1, [0, 1])
    lists.push(-2, [2])
    lists.push(-2, [0])
    lists.check(-2, 2)
    with pytest.raises(BooksError, match="links back elsewhere"):
        lists.check(-1, 2)


def test_check_finds_a_slot_withdrawn_twice(policy_name: str) -> None:
    pool = Pool(policy_name, 3)
    pool.store([1, 2, 3])
    pool.policy.withdraw([1])
    pool.policy.check()
    pool.policy.withdraw([1])
    with pytest.raises(BooksError, match="were counted"):
        pool.policy.check()


def used_and_unused() -> Arc:
    """An Arc with slots 0 and 1 in T1, 2 and 3 in T2."""
    policy = Arc(list)
    policy.grow(4)
    policy.insert([0, 1, 2, 3])
    policy.touch([2, 3])
    policy.check()
    return policy


def test_check_of_arc_finds_a_mark_too_few() -> None:
    policy = used_and_unused()
    policy._places[0] = 0
    with pytest.raises(BooksError, match="another number is marked so"):
        policy.check()


def test_check_of_arc_finds_exchanged_marks() -> None:
    policy = used_and_unused()
    policy._places[0], policy._places[2] = policy._places[2], policy._places[0]
    with pytest.raises(BooksError, match="marked as being elsewhere"):
        policy.check()


def test_check_of_arc_finds_ghosts_beyond_the_limit() -> None:
    policy = used_and_unused()
    policy._ghost_limit = 1
    policy._ghosts[2].add([7, 8])
    with pytest.raises(BooksError, match="2 blocks evicted from list 2 are remembered"):
        policy.check()


@pytest.mark.parametrize(("count", "limit"), [(0, 8), (2, 1)])
def test_check_of_arc_finds_victims_counted_wrongly_and_too_many(count: int, limit: int) -> None:
    policy = used_and_unused()
    policy.evict(2, NOTHING)
    policy.check()
    policy._gone_count, policy._gone_limit = count, limit
    with pytest.raises(BooksError, match="2 victims are noted"):
        policy.check()


@pytest.mark.parametrize("target", [-0.5, 4.5])
def test_check_of_arc_finds_a_target_out_of_range(target: float) -> None:
    policy = used_and_unused()
    policy._target = target
    with pytest.raises(BooksError, match="target"):
        policy.check()
