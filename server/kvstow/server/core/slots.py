"""Slots of one size: which are free, what the others hold, and how often each is held.

A slot is always in one of these states, and `busy` counts the last two:

    free         on the free list of its extent
    evictable    READY, no hold: in the eviction policy's order
    held         READY or already dropped from its index, read by a lease or a running load
    taken        owned by the transfer that fills it

Per slot there are only entries of flat lists, never an object. A table numbers its extents by places of its own, the
lowest first, so that its lists are as long as it has slots: they grow by one extent at a time, whichever piece of the host
pool that is. slot = place * slots_per_extent + position; `SlotTable.locate` says where in the pool that lies. Nothing here
chooses victims or knows transfers; `pool.HostPool` and the verbs of the ledger do.
"""

from array import array
from collections.abc import Iterable, Sequence

from .errors import BooksError
from .index import BlockIndex
from .policy import EvictionPolicy

UNUSED = float("-inf")
"""Before every moment: an extent without blocks is colder than any other."""


class Extent:
    """One fixed piece of the host pool while it serves one slot size.

    Attributes:
        number: which piece of the pool.
        place: where its slots stand in the table's lists.
        shift: from the number of a slot in the table to where it lies in the pool.
        free: free slots, the lowest number last, so that slots are handed out in ascending runs. An array, because the
            garbage collector would walk lists: there are many after a reset.
        busy_count: slots that are held or taken; such an extent cannot be reclaimed.
        used_at: when a slot of it was last stored or read, in seconds of the caller's clock; UNUSED if all are free.
    """

    __slots__ = ("busy_count", "free", "number", "place", "shift", "used_at")

    def __init__(self, number: int, place: int, slot_count: int) -> None:
        first = place * slot_count
        self.number = number
        self.place = place
        self.shift = (number - place) * slot_count
        self.free = array("q", range(first + slot_count - 1, first - 1, -1))
        self.busy_count = 0
        self.used_at = UNUSED


class SlotTable:
    """All slots of one size.

    Args:
        slot_bytes: size of a slot.
        slots_per_extent: how many fit into one extent.
        policy: order in which evictable slots are given up.

    Attributes:
        keys, owners: per slot, the key and the index in which it is READY; None while it is in none.
        holds: per slot, leases and running loads that read it.
        free_count: slots on the free lists.
        busy_count: slots that are held or taken.
        extents: by place.
        idle_count: extents without a busy slot.
        retired: indexes whose READY entries are dropped but whose slots were not handed back yet; such slots count
            as free for everyone, and are taken back before anything is evicted.
    """

    __slots__ = (
        "_open",
        "busy_count",
        "extents",
        "free_count",
        "holds",
        "idle_count",
        "keys",
        "owners",
        "policy",
        "retired",
        "slot_bytes",
        "slots_per_extent",
    )

    def __init__(self, slot_bytes: int, slots_per_extent: int, policy: EvictionPolicy) -> None:
        self.slot_bytes = slot_bytes
        self.slots_per_extent = slots_per_extent
        self.policy = policy
        self.keys: list[bytes | None] = []
        self.owners: list[BlockIndex | None] = []
        self.holds: list[int] = []
        self.free_count = 0
        self.busy_count = 0
        self.extents: dict[int, Extent] = {}
        self.idle_count = 0
        self.retired: list[BlockIndex] = []
        self._open: list[Extent] = []

    @property
    def slot_count(self) -> int:
        """Slots of all extents that serve this size."""
        return len(self.extents) * self.slots_per_extent

    @property
    def retired_count(self) -> int:
        """Dropped entries whose slots still have to be handed back."""
        return sum(index.ready_count for index in self.retired)

    @property
    def evictable_count(self) -> int:
        """READY slots without a hold, in living generations."""
        return self.slot_count - self.free_count - self.busy_count - self.retired_count

    def add_extent(self, number: int) -> None:
        """Put an unused extent of the host pool to work for this size."""
        places = range(len(self.holds) // self.slots_per_extent)
        if len(self.extents) == len(places):
            place = self._new_place()
        else:
            place = next(place for place in places if place not in self.extents)
        extent = Extent(number, place, self.slots_per_extent)
        self.extents[place] = extent
        self._open.append(extent)
        self.free_count += self.slots_per_extent
        self.idle_count += 1

    def drop_extent(self, extent: Extent) -> None:
        """Give an extent whose slots are all free back to the host pool."""
        if len(extent.free) != self.slots_per_extent:
            raise BooksError(f"extent {extent.number} has only {len(extent.free)} free slots")
        self._open.remove(extent)
        del self.extents[extent.place]
        self.free_count -= self.slots_per_extent
        self.idle_count -= 1

    def take(self, count: int) -> list[int]:
        """Take free slots for a transfer, ascending, in as few runs as there are; at least `count` must be free."""
        if count > self.free_count:
            raise BooksError(f"{count} slots taken of {self.free_count} free ones")
        taken: list[int] = []
        while len(taken) < count:
            extent = self._open[-1]
            found = extent.free[len(taken) - count :].tolist()
            del extent.free[len(taken) - count :]
            self._enter_busy(extent, len(found))
            taken += found
            if not extent.free:
                self._open.pop()
        self.free_count -= count
        taken.sort()
        return taken

    def give_back(self, slots: Iterable[int]) -> None:
        """Busy slots that belong to no index and have no hold become free."""
        for slot in slots:
            if self.holds[slot] or self.owners[slot] is not None:
                raise BooksError(f"slot {slot} given back while in use")
            self._push_free(self._leave_busy(slot), slot)

    def settle(
        self, slots: Sequence[int], keys: Sequence[bytes], owner: BlockIndex, now: float
    ) -> None:
        """Taken slots, filled, become evictable blocks of `owner`, given in prefix order."""
        for slot, key in zip(slots, keys, strict=True):
            self.keys[slot] = key
            self.owners[slot] = owner
            self._leave_busy(slot).used_at = now
        self.policy.insert(slots)

    def hold(self, slots: Sequence[int], now: float) -> None:
        """One more reader for each of these READY slots."""
        holds, fresh = self.holds, []
        for slot in slots:
            if not holds[slot]:
                fresh.append(slot)
                extent = self.extents[slot // self.slots_per_extent]
                self._enter_busy(extent, 1)
                extent.used_at = now
            holds[slot] += 1
        self.policy.withdraw(fresh)

    def unhold(self, slots: Sequence[int], now: float) -> None:
        """One reader less; a slot without readers is evictable again, or free if its entry is gone."""
        holds = self.holds
        idle: list[int] = []
        orphans: list[int] = []
        for slot in slots:
            if holds[slot] <= 0:
                raise BooksError(f"slot {slot} has no hold to give back")
            holds[slot] -= 1
            if not holds[slot]:
                (orphans if self.owners[slot] is None else idle).append(slot)
        for slot in idle:
            self._leave_busy(slot).used_at = now
        self.policy.restore(idle)
        self.give_back(orphans)

    def touch(self, slots: Sequence[int]) -> None:
        """READY slots were asked for; those that are held are warm anyway."""
        holds = self.holds
        self.policy.touch([slot for slot in slots if not holds[slot]])

    def orphan(self, slots: Iterable[int]) -> int:
        """Held slots leave their index, if they are in one still; they are free once their readers have ended.

        Returns:
            How many left.
        """
        count = 0
        for slot in slots:
            owner, key = self.owners[slot], self.keys[slot]
            if owner is not None and key is not None:
                owner.evict(key)
                self.owners[slot] = self.keys[slot] = None
                count += 1
        return count

    def clear(self, slots: Iterable[int]) -> None:
        """Slots that are in no policy order and have no hold lose their entry and become free."""
        owners, keys, extents = self.owners, self.keys, self.extents
        for slot in slots:
            owners[slot] = keys[slot] = None
            self._push_free(extents[slot // self.slots_per_extent], slot)

    def slots_of(self, extent: Extent) -> range:
        """The slot numbers of an extent."""
        first = extent.place * self.slots_per_extent
        return range(first, first + self.slots_per_extent)

    def locate(self, slots: Iterable[int]) -> list[int]:
        """Where slots lie in the host pool: number of the extent * slots_per_extent + position in it, for each."""
        extents, per_extent = self.extents, self.slots_per_extent
        return [slot + extents[slot // per_extent].shift for slot in slots]

    def _new_place(self) -> int:
        self.keys.extend([None] * self.slots_per_extent)
        self.owners.extend([None] * self.slots_per_extent)
        self.holds.extend([0] * self.slots_per_extent)
        self.policy.grow(len(self.holds))
        return len(self.holds) // self.slots_per_extent - 1

    def _enter_busy(self, extent: Extent, count: int) -> None:
        if not extent.busy_count:
            self.idle_count -= 1
        extent.busy_count += count
        self.busy_count += count

    def _leave_busy(self, slot: int) -> Extent:
        extent = self.extents[slot // self.slots_per_extent]
        extent.busy_count -= 1
        self.busy_count -= 1
        if not extent.busy_count:
            self.idle_count += 1
        return extent

    def _push_free(self, extent: Extent, slot: int) -> None:
        if not extent.free:
            self._open.append(extent)
        extent.free.append(slot)
        if len(extent.free) == self.slots_per_extent:
            extent.used_at = UNUSED
        self.free_count += 1
