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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import takewhile
from operator import is_not
from typing import cast

from .errors import BooksError
from .types import KeyState
from .writing import Writing, WritingKeys

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
"""Every legal move; anything else is a bug of the caller and raises BooksError, `begin` of a key that is there when it is
published."""


class BlockIndex:
    """The keys of one group in one generation.

    Args:
        serial: unique number of this index, never used twice in a daemon process.
        slot_limit: how many slots the host pool could give to this group.
        group_count: groups of its space.
        zeroed: whether slots are zeroed when its blocks have left them.

    Attributes:
        ready_count: keys that are READY.
        writing: keys that are WRITING.
        evicted_count: READY keys that left by policy, ever; counted by the host pool.
        held_count: READY keys whose slots are held; counted by the slot table.
        retired: a reset has ended this generation; no lookup reaches the index any more.
    """

    __slots__ = (
        "_mask",
        "_probes",
        "_shards",
        "evicted_count",
        "held_count",
        "ready_count",
        "retired",
        "serial",
        "writing",
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
        self.writing = WritingKeys()
        self.evicted_count = 0
        self.held_count = 0
        self.retired = False
        self._mask = shard_count - 1
        self._shards: list[dict[bytes, int]] = [{} for _ in range(shard_count)]
        # Bound once: this saves an attribute lookup for every key that is probed.
        self._probes: list[Callable[[bytes], int | None]] = [shard.get for shard in self._shards]

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
        return KeyState.WRITING if self.writing.has(key) else KeyState.ABSENT

    def begin(self, blocks: Mapping[bytes, int]) -> Writing:
        """ABSENT to WRITING: the slots are being filled.

        The caller has just asked for the keys; here they are not looked for again. If one is READY or WRITING all the same,
        `publish` finds it.
        """
        return self.writing.begin(blocks)

    def publish(self, writing: Writing, blocks: Mapping[bytes, int]) -> None:
        """WRITING to READY: the bytes of these blocks of a store are complete."""
        self.writing.end(writing, blocks)
        shards, mask = self._shards, self._mask
        for key, slot in blocks.items():
            if shards[hash(key) >> _SHARD_SHIFT & mask].setdefault(key, slot) != slot:
                raise BooksError(f"publication of key {key.hex()} which is READY")
        self.ready_count += len(blocks)

    def abort(self, writing: Writing, keys: Collection[bytes]) -> None:
        """WRITING to ABSENT: as if these keys of a store had never been offered."""
        self.writing.end(writing, keys)

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
