"""The bytes of a host pool, as the property test of the ledger sees them: whose may lie where, whatever the books say."""

from collections.abc import Collection, Iterable, Sequence

from kvstow.server.core.ledger import Ledger

UNIT_BYTES = 64
"""The pool is looked at in pieces of this size; slots and extents are some of them each."""

Slot = tuple[int, int]
"""Slot size, and where a slot of this size lies in the pool."""


class PoolBytes:
    """Which tenants' bytes may lie in each unit of the pool.

    Args:
        ledger: whose pool it is; looked into, for blocks and holds.
        size_bytes, extent_bytes: of the pool and its extents.
        zeroed: tenants whose freed slots are zeroed.

    Attributes:
        zeroing: units that are being zeroed; None while nothing is.
    """

    def __init__(
        self, ledger: Ledger, size_bytes: int, extent_bytes: int, zeroed: Collection[str]
    ) -> None:
        self.zeroing: Sequence[int] | None = None
        self._ledger = ledger
        self._extent_bytes = extent_bytes
        self._zeroed = zeroed
        self._traces: list[set[str]] = [set() for _ in range(size_bytes // UNIT_BYTES)]

    def write(self, tenant: str, slots: Iterable[Slot], *, whole: bool) -> None:
        """A store has written these slots; where it has not wholly, the bytes of before may be there still."""
        for unit in self._units(slots):
            if whole:
                self._traces[unit].clear()
            self._traces[unit].add(tenant)

    def begin_zeroing(self) -> bool:
        """Do what the zeroing thread does first; whether there was something to do."""
        assert self.zeroing is None
        pieces = self._ledger.begin_zeroing()
        if pieces is None:
            return False
        self.zeroing = [at // UNIT_BYTES for piece in pieces for at in piece[::UNIT_BYTES]]
        return True

    def end_zeroing(self, copied: Iterable[Slot]) -> None:
        """And what it does then, while copies into or out of some slots run."""
        assert self.zeroing is not None
        in_use = {*self._units(copied), *self._units(self._slots_in_use())}
        assert in_use.isdisjoint(self.zeroing), "zeroed under a block or a copy"
        for unit in self.zeroing:
            self._traces[unit].clear()
        self.zeroing = None
        self._ledger.end_zeroing()
        self._ledger.check()

    def clean_up(self, copied: Iterable[Slot]) -> None:
        """Do what a daemon does that has time: afterwards nothing is left of what was to be zeroed."""
        while self._ledger.sweep():
            self._ledger.check()
        while self.zeroing is not None or self.begin_zeroing():
            self.end_zeroing(copied)
        assert not self._ledger.has_dirt
        in_use = {*self._units(copied), *self._units(self._slots_in_use())}
        for unit, tenants in enumerate(self._traces):
            assert unit in in_use or tenants.isdisjoint(self._zeroed), "bytes of a tenant are left"

    def _units(self, slots: Iterable[Slot]) -> Iterable[int]:
        for size, number in slots:
            extent, position = divmod(number, self._extent_bytes // size)
            start = extent * self._extent_bytes + position * size
            yield from range(start // UNIT_BYTES, (start + size) // UNIT_BYTES)

    def _slots_in_use(self) -> Iterable[Slot]:
        """Slots of blocks that a lookup can find, and slots that are held."""
        books = self._ledger._books
        for table in books.pool.tables.values():
            indexes = [index for space in books.spaces.values() for index in space.indexes]
            for slot, (owner, holds) in enumerate(zip(table.owners, table.holds, strict=True)):
                if owner in indexes or holds:
                    yield table.slot_bytes, table.locate([slot])[0]
