"""Slots of one size: which are free, what the others hold, and how often each is held.

A slot is always in one of these states, and `busy` counts the last three:

    free         on a free list of its extent; among them those that are dirty, see `extents`
    evictable    READY, no hold: in the eviction policy's order
    held         READY or already dropped from its index, read by a lease or a running load
    taken        owned by the transfer that fills it
    zeroing      owned by the zeroing that is under way

What a reset, the end of a session or of many leases decides about very many slots is true at once, but done little by
little: see `SlotTable.backlog`. Until then a slot that nobody reads or fills any more is *loose*: still held, or taken.

Per slot there are only entries of flat lists, never an object. A table numbers its extents by places of its own, the
lowest first, so that its lists are as long as it has slots: they grow by one extent at a time, whichever piece of the host
pool that is. slot = place * slots_per_extent + position; `SlotTable.locate` says where in the pool that lies. Nothing here
chooses victims or knows transfers; `pool.HostPool` and the verbs of the ledger do.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop

from .errors import BooksError
from .extents import UNUSED, Extent, by_extent
from .free_slots import FreeSlots
from .history import History
from .index import BlockIndex
from .loose import Loose, pop_loose
from .policy import EvictionPolicy


class SlotTable:
    """All slots of one size.

    Args:
        slot_bytes: size of a slot.
        slots_per_extent: how many fit into one extent.
        policy: order in which evictable slots are given up.

    Attributes:
        keys, owners: per slot, the key and the index in which it is READY; None while it is in none.
        holds, uses: per slot, leases and running loads that read it, and when it was last used; not of a free one.
        free: those that are free.
        busy_count: slots that are held, taken or being zeroed.
        extents: by place.
        idle_count: extents without a busy slot.
        backlog: indexes with which something is left to do, and their loose slots. A retired index is here until its last
            entry is out; its entries without a hold count as free for everyone, and are handed back before anything is evicted.
    """

    __slots__ = (
        "backlog",
        "busy_count",
        "extents",
        "free",
        "holds",
        "idle_count",
        "keys",
        "owners",
        "policy",
        "slot_bytes",
        "slots_per_extent",
        "uses",
    )

    def __init__(self, slot_bytes: int, slots_per_extent: int, policy: EvictionPolicy) -> None:
        self.slot_bytes = slot_bytes
        self.slots_per_extent = slots_per_extent
        self.policy = policy
        self.keys: list[bytes | None] = []
        self.owners: list[BlockIndex | None] = []
        self.holds: list[int] = []
        self.uses = array("d")
        self.free = FreeSlots()
        self.busy_count = 0
        self.extents: dict[int, Extent] = {}
        self.idle_count = 0
        self.backlog: dict[BlockIndex, list[Loose]] = {}

    @property
    def slot_count(self) -> int:
        """Slots of all extents that serve this size."""
        return len(self.extents) * self.slots_per_extent

    @property
    def free_count(self) -> int:
        """Slots on the free lists."""
        return self.free.count

    @property
    def retired_count(self) -> int:
        """Dropped entries without a hold, whose slots still have to be handed back."""
        retired = (index for index in self.backlog if index.retired)
        return sum(index.ready_count - index.held_count for index in retired)

    @property
    def evictable_count(self) -> int:
        """READY slots without a hold, in living generations."""
        return self.slot_count - self.free_count - self.busy_count - self.retired_count

    def add_extent(self, number: int, *, stained: bool = False) -> None:
        """Put an unused extent of the host pool to work for this size; `stained`: see `Extent`."""
        place = heappop(self.free.places) if self.free.places else self._new_place()
        extent = Extent(number, place, self.slots_per_extent, stained=stained)
        self.extents[place] = extent
        self.free.add(extent)
        self.idle_count += not extent.busy_count

    def drop_extent(self, extent: Extent) -> bool:
        """Give up an extent whose slots are all free; returns whether some are stained."""
        if extent.free_count != self.slots_per_extent:
            raise BooksError(f"extent {extent.number} has only {extent.free_count} free slots")
        self.free.drop(extent)
        del self.extents[extent.place]
        self.idle_count -= 1
        return extent.stained_count > 0

    def take(self, count: int) -> list[int]:
        """Take free slots for a transfer, ascending, in as few runs as there are; at least `count` must be free."""
        taken: list[int] = []
        for extent, found in self.free.take(count):
            self._enter_busy(extent, len(found))
            taken += found
        return sorted(taken)

    def stain(self, slots: Sequence[int]) -> None:
        """A store takes these slots whose blocks are to be zeroed when they have left."""
        for extent, run in by_extent(self.extents, slots):
            extent.stain(run)

    def take_dirty(self, count: int) -> tuple[Extent, list[int]]:
        """Take up to `count` dirty slots, rising, of the extent that has waited longest; none if only its tail is dirty."""
        extent = next(iter(self.free.dirty.values()))
        slots = self.free.take_dirty(extent, count)
        self._enter_busy(extent, len(slots))
        return extent, slots

    def give_back_clean(self, extent: Extent, slots: Sequence[int]) -> None:
        """What was dirty of an extent was zeroed: its tail, and these slots of it."""
        extent.unstain(slots)
        self.give_back(slots)
        if extent.dirty_tail:
            self.free.clean_tail(extent)
            extent.busy_count -= 1
            self.idle_count += not extent.busy_count

    def give_back(self, slots: Sequence[int]) -> None:
        """Busy slots that belong to no index and have no hold become free."""
        for slot in slots:
            if self.holds[slot] or self.owners[slot] is not None:
                raise BooksError(f"slot {slot} given back while in use")
        self._leave_busy(slots, UNUSED)
        self._push_free(slots)

    def settle(self, blocks: Mapping[bytes, int], owner: BlockIndex, now: float) -> None:
        """Taken slots, filled, become evictable blocks of `owner`, given in prefix order."""
        for key, slot in blocks.items():
            self.keys[slot] = key
            self.owners[slot] = owner
        slots = list(blocks.values())
        self._leave_busy(slots, now, unstain=not owner.zeroed)
        self.policy.insert(slots)

    def hold(self, slots: Sequence[int], now: float) -> None:
        """One more reader for each of these slots, READY in one index."""
        holds, owners, fresh = self.holds, self.owners, []
        for slot in slots:
            if not holds[slot]:
                fresh.append(slot)
            holds[slot] += 1
        for extent, run in by_extent(self.extents, fresh):
            self._enter_busy(extent, len(run))
            extent.used_at = now
        if fresh and (index := owners[fresh[0]]) is not None:
            index.held_count += len(fresh)
        self.policy.withdraw(fresh)

    def unhold(self, slots: Sequence[int], now: float) -> None:
        """One reader less for each of these slots, READY in one index or dropped from it.

        A slot without readers is evictable again, or free if its entry or its generation is gone.
        """
        holds, owners, left = self.holds, self.owners, []
        for slot in slots:
            count = holds[slot] - 1
            if count < 0:
                raise BooksError(f"slot {slot} has no hold to give back")
            holds[slot] = count
            if not count:
                left.append(slot)
        dropped = [slot for slot in left if (index := owners[slot]) is None or index.retired]
        self.orphan(dropped)
        self.give_back(dropped)
        idle = [slot for slot in left if owners[slot] is not None] if dropped else left
        if idle and (index := owners[idle[0]]) is not None:
            index.held_count -= len(idle)
            self._leave_busy(idle, now)
            self.policy.restore(idle)

    def loosen(self, index: BlockIndex, loose: Loose) -> None:
        """Slots that belong to an index are to be given back: as by `unhold` or `give_back`, but later."""
        self.backlog.setdefault(index, []).append(loose)

    def tighten(self, index: BlockIndex, limit: int, history: History) -> bool:
        """Give back up to `limit` loose slots of an index; False if there were none. The history is told of void keys."""
        loose, taken = pop_loose(self.backlog[index], limit), list[int]()
        for each in loose:
            if each.writing is None:
                self.unhold(each.slots, each.since)
            else:
                history.moves.add(index.writing.forget(each.writing, len(each.slots)))
                taken += each.slots
        self.give_back(taken)
        if not self.backlog[index] and not index.retired:
            del self.backlog[index]
        return bool(loose)

    def touch(self, slots: Sequence[int], now: float, *, used: bool) -> None:
        """READY slots were asked for (`used`) or offered again; those that are held are warm anyway."""
        holds, uses = self.holds, self.uses
        touched = [slot for slot in slots if not holds[slot]]
        for slot in touched:
            uses[slot] = now
        (self.policy.touch if used else self.policy.refresh)(touched)

    def last_use(self, slot: int) -> float:
        """When a READY slot without a hold was stored, read, asked for or offered again."""
        return self.uses[slot]

    def orphan(self, slots: Iterable[int]) -> Sequence[bytes]:
        """Held slots of one index leave it if they are in it still, free once their readers have ended; returns their keys."""
        owners, keys = self.owners, self.keys
        gone = [slot for slot in slots if owners[slot] is not None]
        left = [key for slot in gone if (key := keys[slot]) is not None]
        if gone and (index := owners[gone[0]]) is not None:
            index.evict(left)
            index.held_count -= len(gone)
        for slot in gone:
            owners[slot] = keys[slot] = None
        return left

    def clear(self, slots: Sequence[int]) -> None:
        """Slots that are in no policy order and have no hold lose their entry and become free."""
        owners, keys = self.owners, self.keys
        for slot in slots:
            owners[slot] = keys[slot] = None
        self._push_free(slots)

    def drain(self, index: BlockIndex) -> bool:
        """Hand back some slots of an index, if it is retired; False when none is left. Held ones are free after their reads."""
        slots = index.drain_shard() if index.retired else []
        unheld = [slot for slot in slots if not self.holds[slot]]
        index.held_count -= len(slots) - len(unheld)
        for slot in slots:
            self.owners[slot] = self.keys[slot] = None
        self.policy.withdraw(unheld)
        self._push_free(unheld)
        return bool(slots)

    def slots_of(self, extent: Extent) -> range:
        """The slot numbers of an extent."""
        first = extent.place * self.slots_per_extent
        return range(first, first + self.slots_per_extent)

    def locate(self, slots: Iterable[int]) -> Sequence[int]:
        """Where slots lie in the host pool: number of the extent * slots_per_extent + position in it, for each."""
        extents, per_extent = self.extents, self.slots_per_extent
        return array("q", [slot + extents[slot // per_extent].shift for slot in slots])

    def _new_place(self) -> int:
        self.keys.extend([None] * self.slots_per_extent)
        self.owners.extend([None] * self.slots_per_extent)
        self.holds.extend([0] * self.slots_per_extent)
        self.uses.extend([0.0] * self.slots_per_extent)
        self.policy.grow(len(self.holds))
        return len(self.holds) // self.slots_per_extent - 1

    def _enter_busy(self, extent: Extent, count: int) -> None:
        self.idle_count -= not extent.busy_count
        extent.busy_count += count
        self.busy_count += count

    def _leave_busy(self, slots: Sequence[int], used_at: float, unstain: bool = False) -> None:
        for extent, run in by_extent(self.extents, slots):
            extent.busy_count -= len(run)
            extent.used_at = max(extent.used_at, used_at)
            if unstain:
                extent.unstain(run)
            self.idle_count += not extent.busy_count
        self.busy_count -= len(slots)
        for slot in slots:
            self.uses[slot] = used_at

    def _push_free(self, slots: Sequence[int]) -> None:
        for extent, run in by_extent(self.extents, slots):
            self.free.push(extent, run)
