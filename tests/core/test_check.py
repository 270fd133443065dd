"""What `check` finds: books that are right are made wrong in one place, for each place that it looks at."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from core.engines import SLOT_BYTES, Engine, identity, key, make_ledger
from kvstow.server.core.books import Books
from kvstow.server.core.check import check
from kvstow.server.core.errors import BooksError
from kvstow.server.core.extents import Extent
from kvstow.server.core.index import BlockIndex
from kvstow.server.core.policy import Lru
from kvstow.server.core.slots import SlotTable
from kvstow.server.core.spaces import Space
from kvstow.server.core.transfers import Transfer
from kvstow.server.core.types import TransferKind

LARGE = 2 * SLOT_BYTES


class RepeatingLru(Lru):
    """Lru that shows its coldest slot twice."""

    def order(self) -> Iterator[int]:
        slots = list(super().order())
        return iter([*slots[:1], *slots])


@pytest.fixture
def books() -> Books:
    """Books with something in every table.

    The first model has 1 READY and held, 2 being loaded, 3 and 6 evictable, 4 and 5 WRITING. The second one, with larger
    blocks, has a dropped block that was not handed back, one READY, and a report that was not acknowledged.
    """
    ledger = make_ledger(16, extent_bytes=4 * SLOT_BYTES)
    first = Engine(ledger)
    first.store([1, 2, 3, 6])
    first.read()
    first.hold([1])
    first.begin_load([2])
    first.begin_store([4, 5])
    second = Engine(ledger, identity("second", block_bytes=[LARGE]))
    second.store([1])
    second.reset()
    second.read()
    second.store([2])
    ledger.check()
    return ledger._books


def table(books: Books) -> SlotTable:
    """The slots of the first model."""
    return books.pool.tables[SLOT_BYTES]


def retired(books: Books) -> BlockIndex:
    """What the second model dropped."""
    (index,) = books.pool.tables[LARGE].backlog
    return index


def space(books: Books) -> Space:
    """The space of the first model."""
    return next(iter(books.spaces.values()))


def index(books: Books) -> BlockIndex:
    """The keys of the first model."""
    return space(books).indexes[0]


def slot_of(books: Books, number: int) -> int:
    """Where a READY block of the first model lies."""
    return dict(index(books).ready_items())[key(number)]


def extent_of(books: Books, number: int) -> Extent:
    """The extent of a READY block of the first model."""
    return table(books).extents[slot_of(books, number) // table(books).slots_per_extent]


def open_extent(books: Books) -> Extent:
    """An extent of the first model that has free slots."""
    return next(extent for extent in table(books).extents.values() if extent.free)


def transfer(books: Books, kind: TransferKind) -> Transfer:
    """The store or the load that is under way."""
    (found,) = (each for each in books.transfers.values() if each.kind is kind)
    return found


def slots(books: Books, kind: TransferKind) -> Sequence[int]:
    """The slots of the store or the load that is under way."""
    return transfer(books, kind).parts[0].slots


def fill_a_slot_twice(books: Books) -> None:
    store = transfer(books, TransferKind.STORE)
    (part,) = store.parts
    store.parts = [replace(part, slots=[*part.slots, part.slots[0]])]


def break_a_link(books: Books) -> None:
    table(books).policy.insert([slot_of(books, 3)])


def show_a_slot_twice(books: Books) -> None:
    policy = RepeatingLru()
    policy.grow(100)
    policy.insert(list(table(books).policy.order()))
    table(books).policy = policy


def list_a_free_slot_twice(books: Books) -> None:
    free = open_extent(books).free
    free.append(free[0])


def hold_once_more(books: Books) -> None:
    table(books).holds[slot_of(books, 1)] += 1


def free_what_is_stored(books: Books) -> None:
    extent_of(books, 3).free = array("q", [slot_of(books, 3)])


def count_a_busy_slot(books: Books) -> None:
    extent_of(books, 3).busy_count += 1


def count_a_free_slot(books: Books) -> None:
    table(books).free.count += 1


def count_a_busy_slot_of_the_size(books: Books) -> None:
    table(books).busy_count += 1


def count_an_idle_extent(books: Books) -> None:
    table(books).idle_count += 1


def lose_an_owner(books: Books) -> None:
    table(books).owners[slot_of(books, 3)] = None


def evict_by_half(books: Books) -> None:
    slot = slot_of(books, 3)
    table(books).owners[slot] = table(books).keys[slot] = None


def show_what_is_written(books: Books) -> None:
    slot = slots(books, TransferKind.STORE)[0]
    table(books).owners[slot], table(books).keys[slot] = index(books), key(4)


def swap_keys(books: Books) -> None:
    table(books).keys[slot_of(books, 3)] = key(6)


def share_an_extent(books: Books) -> None:
    books.pool.tables[LARGE].add_extent(open_extent(books).number)


def lose_an_extent(books: Books) -> None:
    books.pool._unused.pop()


def lose_an_identity(books: Books) -> None:
    del books.space_ids[space(books).identity]


def count_a_session(books: Books) -> None:
    space(books).sessions += 1


def count_a_transfer(books: Books) -> None:
    space(books).running[1] += 1


def forget_to_report_a_reset(books: Books) -> None:
    space(books).draining.append(1)


def show_an_old_generation(books: Books) -> None:
    index(books).retired = True


def forget_a_retired_index(books: Books) -> None:
    books.pool.tables[LARGE].backlog.clear()


def hand_back_the_living(books: Books) -> None:
    retired(books).retired = False


def count_a_held_key(books: Books) -> None:
    index(books).held_count += 1


def forget_a_loose_hold(books: Books) -> None:
    (lease,) = books.leases
    books.void_lease(lease, 1.0)
    table(books).backlog.clear()


def hand_back_what_is_gone(books: Books) -> None:
    table(books).backlog[BlockIndex(99, 1)] = []


def count_a_ready_key(books: Books) -> None:
    index(books).ready_count += 1


def lose_a_slot(books: Books) -> None:
    """The index has a second key in a slot that knows only the first."""
    blocks = {key(9): slot_of(books, 3)}
    index(books).publish(index(books).begin(blocks), blocks)


def write_what_is_ready(books: Books) -> None:
    index(books).begin({key(3): slots(books, TransferKind.STORE)[0]})


def write_without_a_transfer(books: Books) -> None:
    index(books).begin({key(9): slot_of(books, 3)})


def forget_a_lease(books: Books) -> None:
    books.sessions[transfer(books, TransferKind.LOAD).session].leases.clear()


def copy_a_transfer(books: Books) -> None:
    found = transfer(books, TransferKind.LOAD)
    books.sessions[found.session].transfers[found.id] = replace(found)


def miss_an_overdue_one(books: Books) -> None:
    transfer(books, TransferKind.LOAD).overdue = True


def forget_a_report(books: Books) -> None:
    (settled,) = (session.settled for session in books.sessions.values() if session.settled)
    settled.clear()


def forget_a_transfer(books: Books) -> None:
    found = transfer(books, TransferKind.LOAD)
    del books.sessions[found.session].transfers[found.id]


MISTAKES: dict[Callable[[Books], None], str] = {
    fill_a_slot_twice: "is taken by 2 stores",
    break_a_link: "links back elsewhere",
    show_a_slot_twice: "stands twice in the eviction order",
    list_a_free_slot_twice: "lists a free slot twice",
    hold_once_more: "holds are not 1",
    free_what_is_stored: "'free': True, 'evictable': True",
    count_a_busy_slot: "busy slots",
    count_a_free_slot: "free slots, not",
    count_a_busy_slot_of_the_size: "busy slots, not 5",
    count_an_idle_extent: "idle extents, not",
    lose_an_owner: "half an entry",
    evict_by_half: "belongs to no index",
    show_what_is_written: "is in an index but not READY",
    swap_keys: "is not where its index says",
    share_an_extent: "serves two slot sizes",
    lose_an_extent: "an extent is lost",
    lose_an_identity: "not found by its identity",
    count_a_session: "has 1 sessions, not 2",
    count_a_transfer: "runs",
    forget_to_report_a_reset: "was not reported",
    show_an_old_generation: "shows a retired index",
    forget_a_retired_index: "no space shows",
    hand_back_the_living: "no generation shows",
    count_a_held_key: "READY keys are held, not 3",
    forget_a_loose_hold: "holds are not 0",
    hand_back_what_is_gone: "no generation shows",
    count_a_ready_key: "READY keys, not",
    lose_a_slot: "lost slot",
    write_what_is_ready: "is READY and WRITING",
    write_without_a_transfer: "has no transfer",
    forget_a_lease: "leases and sessions disagree",
    copy_a_transfer: "is not in the books",
    miss_an_overdue_one: "counts 0 overdue",
    forget_a_report: "has 1 reports for 0 transfers",
    forget_a_transfer: "is unknown to its session",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_every_mistake_is_found(books: Books, mistake: Callable[[Books], None]) -> None:
    mistake(books)
    with pytest.raises(BooksError, match=MISTAKES[mistake]):
        check(books)
