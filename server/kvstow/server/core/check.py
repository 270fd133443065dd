"""The invariants of the books, each checked against a recount; called after every step of every test.

It walks everything and is far too slow for a busy daemon; it changes nothing and raises on the first contradiction.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from itertools import chain

from .books import Books
from .deadlines import Due, GraceDue, LeaseDue, SweepDue, TransferDue
from .errors import BooksError
from .extents import Extent
from .index import BlockIndex
from .slots import SlotTable
from .transfers import StorePart
from .types import TransferKind
from .writing import Writing

_SlotKey = tuple[int, int]


def check(books: Books) -> None:
    """See `Ledger.check`."""
    taken, readers = _owned(books)
    for table in books.pool.tables.values():
        _check_table(table, taken, readers, books.pool.being_zeroed(table.slot_bytes))
    _check_extents(books)
    _check_spaces(books, taken)
    _check_sessions(books)
    _check_deadlines(books)
    _require(
        not books.pool.loosened, "a call has made slots loose and has not given back what it may"
    )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise BooksError(message)


def _owned(books: Books) -> tuple[Counter[_SlotKey], Counter[_SlotKey]]:
    """Slots that a store has taken, and how many read each; also those that are loose."""
    taken: Counter[_SlotKey] = Counter()
    readers: Counter[_SlotKey] = Counter()
    for transfer in books.transfers.values():
        counted = taken if transfer.kind is TransferKind.STORE else readers
        for part in transfer.parts:
            counted.update((part.table.slot_bytes, slot) for slot in part.slots)
    for lease in books.leases.values():
        for held in lease.held:
            readers.update((held.table.slot_bytes, slot) for slot in held.slots)
    for table in books.pool.tables.values():
        for loose in chain.from_iterable(table.backlog.values()):
            counted = readers if loose.writing is None else taken
            counted.update((table.slot_bytes, slot) for slot in loose.slots)
    for key, count in taken.items():
        _require(count == 1, f"slot {key} is taken by {count} stores")
    return taken, readers


def _check_table(
    table: SlotTable,
    taken: Counter[_SlotKey],
    readers: Counter[_SlotKey],
    being_zeroed: Collection[int],
) -> None:
    table.policy.check()
    order = list(table.policy.order())
    evictable = set(order)
    _require(len(order) == len(evictable), "a slot stands twice in the eviction order")
    seen: Counter[str] = Counter()
    for extent in table.extents.values():
        free, dirty = set(extent.free), set(extent.dirty)
        listed = len(free) + len(dirty)
        _require(listed == extent.free_count, f"extent {extent.number} lists a free slot twice")
        states: Counter[str] = Counter()
        for slot in table.slots_of(extent):
            key = (table.slot_bytes, slot)
            _require(
                table.holds[slot] == readers[key], f"slot {key}: holds are not {readers[key]}"
            )
            facts = {
                "free": slot in free,
                "evictable": slot in evictable,
                "held": bool(readers[key]),
                "taken": bool(taken[key]),
                "dirty": slot in dirty,
                "zeroing": slot in being_zeroed,
            }
            _require(sum(facts.values()) == 1, f"slot {key} is {facts}")
            states.update(name for name, true in facts.items() if true)
            _check_owner(table, slot, facts)
            _check_stain(table, extent, slot, facts)
        _check_extent(table, extent, states)
        seen.update(states)
    _check_counts(table, seen)


def _check_extent(table: SlotTable, extent: Extent, states: Counter[str]) -> None:
    name = f"extent {extent.number}"
    busy = states["held"] + states["taken"] + states["zeroing"] + extent.dirty_tail
    _require(busy == extent.busy_count, f"{name} has {busy} busy slots")
    stained = sum(extent.stains)
    counted = extent.stained_count
    _require(stained == counted, f"{name} has {stained} stained slots, not {counted}")
    waits = table.free.dirty.get(extent.place) is extent
    _require(
        waits == bool(extent.dirty or extent.dirty_tail),
        f"{name} is dirty and does not wait to be zeroed, or waits and is not",
    )
    empty = not busy and states["free"] + states["dirty"] == extent.slot_count
    listed = table.free.empty.get(extent.place) is extent
    _require(empty == listed, f"{name} is empty and not listed as such, or listed and not empty")


def _check_stain(table: SlotTable, extent: Extent, slot: int, facts: Mapping[str, bool]) -> None:
    stained = bool(extent.stains[slot - extent.place * extent.slot_count])
    owner = table.owners[slot]
    if owner is not None:
        _require(stained == owner.zeroed, f"slot {slot} is stained as if it were not its owner's")
    _require(stained or not (facts["dirty"] or facts["zeroing"]), f"clean slot {slot} is dirty")
    _require(not (stained and facts["free"]), f"stained slot {slot} is free and not dirty")


def _check_counts(table: SlotTable, seen: Counter[str]) -> None:
    free = seen["free"] + seen["dirty"]
    _require(free == table.free_count, f"{free} free slots, not {table.free_count}")
    dirty = table.free.dirty_count
    _require(seen["dirty"] == dirty, f"{seen['dirty']} dirty slots, not {dirty}")
    busy = seen["held"] + seen["taken"] + seen["zeroing"]
    _require(busy == table.busy_count, f"{busy} busy slots, not {table.busy_count}")
    _require(
        seen["evictable"] == table.evictable_count + table.retired_count,
        f"{seen['evictable']} evictable, not {table.evictable_count} + {table.retired_count}",
    )
    _require(seen.total() == table.slot_count, "free and used slots do not add up to the capacity")
    idle = sum(not extent.busy_count for extent in table.extents.values())
    _require(idle == table.idle_count, f"{idle} idle extents, not {table.idle_count}")
    places = range(len(table.holds) // table.slots_per_extent)
    known = sorted([*table.extents, *table.free.places])
    _require(known == list(places), "a place is lost, or is free and has an extent")


def _check_owner(table: SlotTable, slot: int, facts: Mapping[str, bool]) -> None:
    owner, key = table.owners[slot], table.keys[slot]
    _require((owner is None) == (key is None), f"slot {slot} has half an entry")
    if owner is None or key is None:
        _require(not facts["evictable"], f"evictable slot {slot} belongs to no index")
        return
    ready = facts["evictable"] or facts["held"]
    _require(ready, f"slot {slot} is in an index but not READY")
    _require(owner.probe([key]) == [slot], f"slot {slot} is not where its index says")


def _check_extents(books: Books) -> None:
    used = [
        extent.number for table in books.pool.tables.values() for extent in table.extents.values()
    ]
    _require(len(set(used)) == len(used), "an extent serves two slot sizes")
    _require(len(used) + books.pool.unused_count == books.pool.extent_count, "an extent is lost")


def _check_spaces(books: Books, taken: Counter[_SlotKey]) -> None:
    living: dict[int, set[BlockIndex]] = defaultdict(set)
    for space in books.spaces.values():
        _require(
            books.space_ids.get(space.identity) == space.id,
            f"space {space.id} is not found by its identity",
        )
        sessions = sum(session.space == space.id for session in books.sessions.values())
        _require(
            sessions == space.sessions,
            f"space {space.id} has {sessions} sessions, not {space.sessions}",
        )
        running = Counter(
            found.generation for found in books.transfers.values() if found.space == space.id
        )
        _require(running == space.running, f"space {space.id} runs {running}, not {space.running}")
        oldest = min(running, default=space.generation)
        _require(
            all(oldest < due <= space.generation for due in space.draining),
            "a drained reset was not reported",
        )
        for index, table in zip(space.indexes, space.tables, strict=True):
            _require(not index.retired, f"space {space.id} shows a retired index")
            living[table.slot_bytes].add(index)
            _check_index(index, table, taken)
    for table in books.pool.tables.values():
        _check_backlog(table, living[table.slot_bytes])
    _check_void(books, set().union(*living.values()))
    for table in books.pool.tables.values():
        shown = living[table.slot_bytes] | set(table.backlog)
        _require(
            all(owner is None or owner in shown for owner in table.owners),
            "a block belongs to an index that no space shows",
        )


def _check_backlog(table: SlotTable, living: Collection[BlockIndex]) -> None:
    for index in table.backlog:
        _require(
            index.retired or index in living, "an index that no generation shows is worked off"
        )
        if index.retired:
            _check_ready(index, table)


def _check_void(books: Books, living: Collection[BlockIndex]) -> None:
    """A void key is still to be forgotten: when its store, which is abandoned, ends, or with its slot, which is loose."""
    waiting: Counter[Writing] = Counter()
    for transfer in books.transfers.values():
        for part in transfer.parts:
            if isinstance(part, StorePart):
                _require(
                    (part.writing.voided is not None) == transfer.abandoned,
                    "keys are void and their store is not abandoned, or the reverse",
                )
                waiting[part.writing] += len(part.slots)
    for table in books.pool.tables.values():
        for loose in chain.from_iterable(table.backlog.values()):
            if loose.writing is not None:
                waiting[loose.writing] += len(loose.slots)
    _check_forgotten(waiting, living)


def _check_forgotten(waiting: Counter[Writing], living: Collection[BlockIndex]) -> None:
    for writing, slots in waiting.items():
        _require(writing.left == slots, f"{writing.left} keys wait for {slots} slots")
    for index in living:
        for key, writing in index.writing.void_items():
            _require(writing in waiting, f"void key {key.hex()} is never forgotten")


def _check_index(index: BlockIndex, table: SlotTable, taken: Counter[_SlotKey]) -> None:
    ready, writing = _check_ready(index, table), dict(index.writing.items())
    counted = index.writing.count
    _require(len(writing) == counted, f"{len(writing)} WRITING keys, not {counted}")
    for key, slot in writing.items():
        _require(key not in ready, f"key {key.hex()} is READY and WRITING")
        _require(taken[table.slot_bytes, slot] == 1, f"WRITING key {key.hex()} has no transfer")
        if index.zeroed:
            extent = table.extents[slot // table.slots_per_extent]
            stained = extent.stains[slot % table.slots_per_extent]
            _require(bool(stained), f"slot {slot} of WRITING key {key.hex()} is not stained")


def _check_ready(index: BlockIndex, table: SlotTable) -> Mapping[bytes, int]:
    ready = dict(index.ready_items())
    held = sum(table.holds[slot] > 0 for slot in ready.values())
    _require(held == index.held_count, f"{held} READY keys are held, not {index.held_count}")
    _require(len(ready) == index.ready_count, f"{len(ready)} READY keys, not {index.ready_count}")
    for key, slot in ready.items():
        _require(
            table.owners[slot] is index and table.keys[slot] == key,
            f"READY key {key.hex()} lost slot {slot}",
        )
    return ready


def _check_sessions(books: Books) -> None:
    leases = {lease for session in books.sessions.values() for lease in session.leases.values()}
    _require(leases == set(books.leases), "leases and sessions disagree")
    for session in books.sessions.values():
        for transfer in session.transfers.values():
            _require(
                books.transfers.get((session.id, transfer.id)) is transfer,
                f"transfer {transfer.id} of session {session.id} is not in the books",
            )
        overdue = sum(transfer.overdue for transfer in session.transfers.values())
        _require(
            overdue == session.overdue_count,
            f"session {session.id} counts {session.overdue_count} overdue",
        )
        _require(
            session.outbox.report_count == len(session.settled),
            f"session {session.id} has {session.outbox.report_count} reports for {len(session.settled)} transfers",
        )
    for session_id, transfer_id in books.transfers:
        owner = books.sessions.get(session_id)
        _require(
            owner is None or transfer_id in owner.transfers,
            f"transfer {transfer_id} is unknown to its session",
        )


def _check_deadlines(books: Books) -> None:
    due: set[Due] = {LeaseDue(lease) for lease in books.leases}
    due |= {TransferDue(*key) for key, found in books.transfers.items() if not found.overdue}
    due |= {
        GraceDue(session.id)
        for session in books.sessions.values()
        if session.stream.grace_deadline is not None
    }
    due |= books.deadlines.living() & {SweepDue()}
    _require(due == books.deadlines.living(), f"what falls due is not {due}")
