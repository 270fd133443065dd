"""The host pool as the books see it: extents, the slot tables they serve, and where room for a store comes from.

Room is found in this order: free slots of the right size (among them those that a reset has dropped), unused extents,
extents of another size whose blocks are all evictable (empty ones, then the coldest), and only for the rest eviction.
The third comes before the fourth while they are colder than what would be evicted, or the fourth alone would not suffice.

Everything is all-or-nothing: `take` is called for no more than what `room` has said. Before `room` says that something
cannot be had it gives back loose slots, so that what is still to be done little by little refuses hardly anybody.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence

from .arc import Identify
from .errors import BlockTooLarge, BooksError
from .evictions import Evictions
from .extents import Extent, Zeroing
from .history import History
from .index import BlockIndex
from .loose import Loose
from .policy import EvictionPolicy
from .reclaiming import Claim, coldest, reclaimable_count
from .slots import SlotTable
from .types import Fate

PolicyFactory = Callable[[Identify], EvictionPolicy]
"""Makes a policy; it is given a function from slots to numbers that identify the blocks in them."""

Zeroes = Callable[[str], bool]
"""Whether the freed slots of a tenant, given by name, are zeroed."""

TIGHTEN_LIMIT = 1 << 11
"""Loose slots that are given back in one step, which takes a millisecond or two."""

ROOM_STEPS = 8
"""Steps that one store waits for: slots that were held many times over may have to be given back as often."""


def no_tenant(_tenant: str) -> bool:
    """Nobody's freed slots are zeroed."""
    return False


class HostPool:
    """All extents and all slot tables.

    Args:
        size_bytes: size of the pool; what does not fill an extent is not used.
        extent_bytes: size of one extent.
        make_policy: called once for each slot size.
        history: of blocks; told here of every one that leaves by policy.
        zeroes: whether the freed slots of a tenant are zeroed.

    Attributes:
        loosened: how many slots of each index have come loose in the call that is under way.
        zeroing: the one that is under way.
        last_zeroed: the slot size of the one that began last; 0 before the first.
    """

    def __init__(
        self,
        size_bytes: int,
        extent_bytes: int,
        make_policy: PolicyFactory,
        history: History,
        zeroes: Zeroes = no_tenant,
    ) -> None:
        self.extent_bytes = extent_bytes
        self.extent_count = size_bytes // extent_bytes
        self.tables: dict[int, SlotTable] = {}
        self.evictions = Evictions()
        self.history = history
        self.zeroes = zeroes
        self.loosened: Counter[tuple[SlotTable, BlockIndex]] = Counter()
        self.zeroing: Zeroing | None = None
        self.last_zeroed = 0
        self._unused = list(range(self.extent_count - 1, -1, -1))
        self._make_policy = make_policy

    @property
    def unused_count(self) -> int:
        """Extents that serve no slot size."""
        return len(self._unused)

    def check_fits(self, slot_bytes: int) -> None:
        """A slot of this size is possible.

        Raises:
            BlockTooLarge: no extent can hold one such slot.
        """
        if slot_bytes > self.extent_bytes:
            raise BlockTooLarge(
                f"a slot of {slot_bytes} bytes does not fit into an extent of {self.extent_bytes} bytes",
                slot_bytes=slot_bytes,
                extent_bytes=self.extent_bytes,
            )

    def table(self, slot_bytes: int) -> SlotTable:
        """The table of a slot size that fits, made at the first call."""
        if slot_bytes not in self.tables:
            owners: list[BlockIndex | None] = []
            keys: list[bytes | None] = []

            def identify(slots: Sequence[int]) -> list[int]:
                identities = []
                for slot in slots:
                    owner = owners[slot]
                    if owner is None:
                        raise BooksError(f"slot {slot} without a block was asked for its identity")
                    # Of many indexes with the same keys each has numbers of its own.
                    identities.append(hash(keys[slot]) ^ owner.serial)
                return identities

            policy = self._make_policy(identify)
            table = SlotTable(slot_bytes, self.extent_bytes // slot_bytes, policy)
            table.owners, table.keys = owners, keys
            self.tables[slot_bytes] = table
        return self.tables[slot_bytes]

    def slot_limit(self, slot_bytes: int) -> int:
        """Slots of this size if the whole pool served it."""
        return self.extent_count * (self.extent_bytes // slot_bytes)

    def being_zeroed(self, slot_bytes: int) -> Sequence[int]:
        """Slots of this size that are being zeroed."""
        found = self.zeroing
        return found.slots if found is not None and found.slot_bytes == slot_bytes else ()

    def room(self, table: SlotTable, wanted: int, claim: Claim) -> int:
        """How many of `wanted` slots can be had without giving up a block that the request names."""
        for _ in range(ROOM_STEPS):
            have = self._count(table, wanted, claim)
            if have == wanted or not self._tighten(table):
                return have
        return self._count(table, wanted, claim)

    def _count(self, table: SlotTable, wanted: int, claim: Claim) -> int:
        have = table.free_count + table.retired_count
        have += self.unused_count * table.slots_per_extent
        if have >= wanted:
            return wanted
        kept = sum(not table.holds[slot] for slot in claim.kept(table))
        have += table.evictable_count - kept
        if have >= wanted:
            return wanted
        have += reclaimable_count(self._others(table), claim) * table.slots_per_extent
        return min(wanted, have)

    def take(self, table: SlotTable, count: int, claim: Claim, now: float) -> list[int]:
        """Slots for a transfer, ascending; `room` must have said that there are as many."""
        self._hand_back_retired(table, count)
        while table.free_count < count and self._unused:
            table.add_extent(self._unused.pop())
        if table.free_count < count:
            self._widen(table, count, claim, now)
        if table.free_count < count:
            self._evict(table, count - table.free_count, claim.kept(table), now)
        return table.take(count)

    def forget_tables(self, in_use: Collection[int]) -> None:
        """Forget the tables of slot sizes that no space uses and that have no extent.

        Args:
            in_use: the slot sizes of all spaces.
        """
        for size, table in list(self.tables.items()):
            if not table.extents and size not in in_use:
                del self.tables[size]

    def loosen(self, table: SlotTable, index: BlockIndex, loose: Loose) -> None:
        """Slots of an index come loose; `tighten` has to be called before anything else is done."""
        table.loosen(index, loose)
        self.loosened[table, index] += len(loose.slots)

    def tighten(self, limit: int) -> bool:
        """Give back up to `limit` of the slots that have just come loose; whether something has, and some is left."""
        for (table, index), count in self.loosened.items():
            given = min(count, limit)
            table.tighten(index, given, self.history)
            limit -= given
        touched = {table for table, _ in self.loosened}
        self.loosened.clear()
        return any(table.backlog for table in touched)

    def _tighten(self, first: SlotTable) -> bool:
        """Give back some loose slots, rather those of one table; False if there were none."""
        for table in (first, *self.tables.values()):
            for index in table.backlog:
                if table.tighten(index, TIGHTEN_LIMIT, self.history):
                    return True
        return False

    def sweep(self) -> bool:
        """Give back one batch of loose slots, or hand back one of dropped entries; True while some are left."""
        for table in self.tables.values():
            for index in table.backlog:
                self._hand_back(table, index)
                return True
        return False

    def _hand_back_retired(self, table: SlotTable, count: int) -> None:
        for index in [index for index in table.backlog if index.retired]:
            while table.free_count < count and table.drain(index):
                # By turns: one of both gives slots, whether few entries are held, or most of them by loose holds.
                if table.free_count < count:
                    table.tighten(index, TIGHTEN_LIMIT, self.history)

    def _hand_back(self, table: SlotTable, index: BlockIndex) -> None:
        """Holds before entries: an entry that is still held has no slot to hand back."""
        if not table.tighten(index, TIGHTEN_LIMIT, self.history) and not table.drain(index):
            del table.backlog[index]

    def _widen(self, table: SlotTable, count: int, claim: Claim, now: float) -> None:
        """Take extents from other sizes while they are colder than what would be evicted, or eviction cannot suffice."""
        kept = claim.kept(table)
        spare = table.evictable_count - sum(not table.holds[slot] for slot in kept)
        missing = -(-(count - table.free_count) // table.slots_per_extent)
        for other, extent in coldest(self._others(table), claim, missing):
            needed = table.free_count + spare < count
            if not (needed or extent.used_at < self._coldest_use(table)):
                return
            self._reclaim(other, extent, table, now)

    def _evict(self, table: SlotTable, count: int, kept: Collection[int], now: float) -> None:
        slots = table.policy.evict(count, kept)
        self.evictions.capacity += self._forget(table, slots, Fate.EVICTED, now)
        # They come coldest first: the middle block of either half stands for that half.
        for half in (slots[: count // 2], slots[count // 2 :]):
            if half:
                age_s = now - table.last_use(half[len(half) // 2])
                self.evictions.age_s.record(age_s, len(half))
        table.clear(slots)

    def _forget(self, table: SlotTable, slots: Sequence[int], fate: Fate, now: float) -> int:
        """Take blocks out of their indexes; returns how many a lookup could have found."""
        owners, keys = table.owners, table.keys
        evicted: dict[BlockIndex, list[bytes]] = defaultdict(list)
        for slot in slots:
            owner, key = owners[slot], keys[slot]
            if owner is None or key is None:
                raise BooksError(f"slot {slot} was chosen for eviction but holds no block")
            evicted[owner].append(key)
        count = 0
        for index, gone in evicted.items():
            index.evict(gone)
            if not index.retired:
                index.evicted_count += len(gone)
                self.history.add(index.serial, fate, gone, now)
                count += len(gone)
        return count

    def _others(self, table: SlotTable) -> list[SlotTable]:
        return [other for other in self.tables.values() if other is not table]

    def _coldest_use(self, table: SlotTable) -> float:
        victim = next(table.policy.order())
        return table.extents[victim // table.slots_per_extent].used_at

    def _reclaim(self, table: SlotTable, extent: Extent, heir: SlotTable, now: float) -> None:
        """Take an extent from a table and give it to another."""
        if extent.place not in table.free.empty:
            slots = [slot for slot in table.slots_of(extent) if table.owners[slot] is not None]
            table.policy.withdraw(slots)
            self.evictions.reclaimed += self._forget(table, slots, Fate.RECLAIMED, now)
            table.clear(slots)
        heir.add_extent(extent.number, stained=table.drop_extent(extent))
