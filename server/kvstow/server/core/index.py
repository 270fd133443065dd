"""Key to slot, for one group in one generation of one space.

The life of a key, and the only moves there are:

            begin               publish              evict
    ABSENT ------> WRITING ----------------> READY --------> ABSENT
                      |                                        ^
                      +----------------- abort ----------------+

A key that is WRITING is never readable. A reset does not walk the keys: the space gets a new index and this one is
retired; its READY entries stay only so that their slots can be found and handed back little by little.

READY entries are dictionary items from key to slot number and nothing else. Above DENSE_LIMIT entries the dictionary is
split by hash into shards, because one large dictionary that grows stalls its caller for longer than a request may take.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import repeat, takewhile
from operator import is_not
from typing import cast

from .errors import BooksError
from .types import KeyState

DENSE_LIMIT = 1 << 17
"""Up to this many slots one dictionary serves: it grows within some milliseconds and is probed fastest."""

SHARD_TARGET = 1 << 14
"""Entries per shard that a larger index aims at when full: one grows within about a millisecond, and there are few enough
for the heads of all of them to stay in the processor's cache."""

MAX_SHARDS = 1 << 12
"""Of all groups of a space together, however large the pool is: they are made under the lock, anew with every reset."""

DRAIN_LIMIT = 1 << 10
"""Entries of a retired index that are taken out in one step: what becomes of them takes some milliseconds."""

_SHARD_SHIFT = 32
"""A dictionary uses the low bits of a hash first; shards are chosen by bits above them."""

_present = partial(is_not, None)


class Move(Enum):
    """What can happen to a key."""

    BEGIN = "begin"
    PUBLISH = "publish"
    ABORT = "abort"
    EVICT = "evict"


TRANSITIONS: dict[KeyState, dict[Move, KeyState]] = {
    KeyState.ABSENT: {Move.BEGIN: KeyState.WRITING},
    KeyState.WRITING: {Move.PUBLISH: KeyState.READY, Move.ABORT: KeyState.ABSENT},
    KeyState.READY: {Move.EVICT: KeyState.ABSENT},
}
"""Every legal move; anything else is a bug of the caller and raises BooksError."""


@dataclass(slots=True)
class Writing:
    """The keys that one store makes WRITING, and the slots it fills.

    A store that is abandoned makes it void: from then on none of its keys is WRITING, though they are taken out of the index
    little by little, like its slots.
    """

    keys: Sequence[bytes]
    slots: Sequence[int]
    is_void: bool = False


class BlockIndex:
    """The keys of one group in one generation.

    Args:
        serial: unique number of this index, never used twice in a daemon process.
        slot_limit: how many slots the host pool could give to this group.
        group_count: groups of its space.
        zeroed: whether slots are zeroed when its blocks have left them.

    Attributes:
        ready_count: keys that are READY.
        writing_count: keys that are WRITING.
        evicted_count: READY keys that left by policy, ever; counted by the host pool.
        held_count: READY keys whose slots are held; counted by the slot table.
        retired: a reset has ended this generation; no lookup reaches the index any more.
    """

    __slots__ = (
        "_mask",
        "_probes",
        "_shards",
        "_writing",
        "evicted_count",
        "held_count",
        "ready_count",
        "retired",
        "serial",
        "writing_count",
        "zeroed",
    )

    def __init__(
        self, serial: int, slot_limit: int, *, group_count: int = 1, zeroed: bool = False
    ) -> None:
        shard_count = 1
        if slot_limit > DENSE_LIMIT:
            most = max(1, MAX_SHARDS >> (group_count - 1).bit_length())
            shard_count = min(most, 1 << (slot_limit // SHARD_TARGET).bit_length())
        self.serial = serial
        self.zeroed = zeroed
        self.ready_count = 0
        self.writing_count = 0
        self.evicted_count = 0
        self.held_count = 0
        self.retired = False
        self._mask = shard_count - 1
        self._shards: list[dict[bytes, int]] = [{} for _ in range(shard_count)]
        # Bound once: this saves an attribute lookup for every key that is probed.
        self._probes: list[Callable[[bytes], int | None]] = [shard.get for shard in self._shards]
        self._writing: dict[bytes, Writing] = {}

    def writing_among(self, keys: Sequence[bytes]) -> AbstractSet[bytes]:
        """Those of the keys that are WRITING."""
        writing = self._writing
        return {key for key in writing.keys() & keys if not writing[key].is_void}

    def probe(self, keys: Sequence[bytes]) -> list[int | None]:
        """Slot of each READY key, None for the others."""
        probes, mask = self._probes, self._mask
        if not mask:
            return list(map(probes[0], keys))
        return [probes[hash(key) >> _SHARD_SHIFT & mask](key) for key in keys]

    def ready_prefix(self, keys: Sequence[bytes]) -> list[int]:
        """Slots of the leading READY keys."""
        probes, mask = self._probes, self._mask
        if not mask:
            return cast("list[int]", list(takewhile(_present, map(probes[0], keys))))
        slots = []
        for key in keys:
            slot = probes[hash(key) >> _SHARD_SHIFT & mask](key)
            if slot is None:
                break
            slots.append(slot)
        return slots

    def present_count(self, keys: Sequence[bytes], start: int) -> int:
        """How many keys from `start` on are READY or WRITING before the first that is neither."""
        count = 0
        for position in range(start, len(keys)):
            if self.state(keys[position]) is KeyState.ABSENT:
                break
            count += 1
        return count

    def state(self, key: bytes) -> KeyState:
        """Where the key stands."""
        if key in self._shards[hash(key) >> _SHARD_SHIFT & self._mask]:
            return KeyState.READY
        found = self._writing.get(key)
        return KeyState.ABSENT if found is None or found.is_void else KeyState.WRITING

    def begin(self, keys: Sequence[bytes], slots: Sequence[int]) -> Writing:
        """ABSENT to WRITING: the slots are being filled.

        The caller has just probed the keys; here they are not looked for among the READY ones again. If one is there all
        the same, `publish` finds it.
        """
        for found in self.writing_among(keys):
            raise BooksError(f"begin of key {found.hex()} which is WRITING")
        begun = Writing(keys, slots)
        self._writing.update(zip(keys, repeat(begun)))
        self.writing_count += len(keys)
        return begun

    def publish(self, keys: Sequence[bytes], slots: Sequence[int]) -> None:
        """WRITING to READY: the bytes are complete."""
        shards, mask, writing = self._shards, self._mask, self._writing
        for key, slot in zip(keys, slots, strict=True):
            found = writing.pop(key, None)
            if found is None or found.is_void:
                raise self._not_writing(key)
            if shards[hash(key) >> _SHARD_SHIFT & mask].setdefault(key, slot) != slot:
                raise BooksError(f"publication of key {key.hex()} which is READY")
        self.ready_count += len(keys)
        self.writing_count -= len(keys)

    def abort(self, keys: Sequence[bytes]) -> None:
        """WRITING to ABSENT: as if the store had never been offered."""
        for key in keys:
            found = self._writing.pop(key, None)
            if found is None or found.is_void:
                raise self._not_writing(key)
        self.writing_count -= len(keys)

    def void(self, writing: Writing) -> None:
        """WRITING to ABSENT for all keys of a store at once; `forget` is to be called for them later."""
        writing.is_void = True
        self.writing_count -= len(writing.keys)

    def forget(self, writing: Writing, keys: Sequence[bytes]) -> None:
        """Take out some keys of what is void, but those that another store has begun meanwhile."""
        known = self._writing
        for key in keys:
            if known.get(key) is writing:
                del known[key]

    def evict(self, keys: Sequence[bytes]) -> None:
        """READY to ABSENT."""
        shards, mask = self._shards, self._mask
        for key in keys:
            if shards[hash(key) >> _SHARD_SHIFT & mask].pop(key, None) is None:
                raise BooksError(f"eviction of key {key.hex()} which is {self.state(key).name}")
        self.ready_count -= len(keys)

    def drain_shard(self) -> list[int]:
        """Take out some READY entries of one shard of a retired index; returns their slots, empty when none is left.

        Those that are held still count as held: the caller accounts for them.
        """
        while self._shards and not self._shards[-1]:
            # Each shard is freed as it empties: all of them in one step would take a tenth of a second.
            self._shards.pop()
            self._probes.pop()
        if not self._shards:
            return []
        shard = self._shards[-1]
        slots = [shard.popitem()[1] for _ in range(min(len(shard), DRAIN_LIMIT))]
        self.ready_count -= len(slots)
        return slots

    def ready_items(self) -> Iterator[tuple[bytes, int]]:
        """All READY keys with their slots; for checks only, it walks everything."""
        for shard in self._shards:
            yield from shard.items()

    def writing_items(self) -> Iterator[tuple[bytes, int]]:
        """All WRITING keys with their slots; for checks only."""
        living = {id(found): found for found in self._writing.values() if not found.is_void}
        for found in living.values():
            for key, slot in zip(found.keys, found.slots, strict=True):
                if self._writing.get(key) is found:
                    yield key, slot

    def void_items(self) -> Iterator[tuple[bytes, Writing]]:
        """All keys that are void and not taken out yet; for checks only."""
        return ((key, found) for key, found in self._writing.items() if found.is_void)

    def _not_writing(self, key: bytes) -> BooksError:
        return BooksError(f"end of writing of key {key.hex()} which is {self.state(key).name}")
