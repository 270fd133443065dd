"""Why a key is missing: the batches in which keys lately came and went, and the search in them.

Keeping them costs one entry for each batch, and its keys in one piece: nothing that the garbage collector walks, and nothing
that takes long to free. The oldest batches are forgotten when there are too many keys or batches. A batch never changes, so
references to all of them are copied under the lock, and searched without it.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .types import Fate, KeyFate, StoreStatus

BATCH_LIMIT = 1 << 14
"""Batches of one history, however few keys they have: as many references are copied when somebody asks."""

_REFUSED = {
    StoreStatus.NO_SPACE.value: Fate.NO_SPACE,
    StoreStatus.NOT_ADMITTED.value: Fate.NOT_ADMITTED,
}


class PackedKeys:
    """Keys of one length, in one piece of memory.

    Args:
        keys: at least one.
    """

    __slots__ = ("_bytes", "_count")

    def __init__(self, keys: Collection[bytes]) -> None:
        self._bytes = b"".join(keys)
        self._count = len(keys)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        size = len(self._bytes) // self._count
        return (self._bytes[at : at + size] for at in range(0, len(self._bytes), size))

    def __contains__(self, key: object) -> bool:
        return any(each == key for each in self)


@dataclass(frozen=True, slots=True)
class Batch:
    """Keys that shared a fate.

    Args:
        number: batches of one History are numbered in their order; many may have the same time.
        index: serial number of their index.
        at: when.
        fate: what became of them.
        keys: the keys.
        letters: of a refused offer, a StoreStatus letter for each key; only the refused ones have the fate it names.
    """

    number: int
    index: int
    at: float
    fate: Fate
    keys: Collection[bytes]
    letters: str = ""

    def fates(self, asked: set[bytes]) -> Mapping[bytes, Fate]:
        """What became of those of the keys asked for that are in it."""
        found = asked.intersection(self.keys)
        if not self.letters or not found:
            return dict.fromkeys(found, self.fate)
        letters = zip(self.keys, self.letters, strict=True)
        return {
            key: _REFUSED[letter] for key, letter in letters if key in found and letter in _REFUSED
        }


class Batches:
    """Batches in the order in which they were added.

    Args:
        limit: keys that are remembered, but for the newest batch, which always is.

    Attributes:
        forgotten: number of the newest batch of those that are forgotten; 0 while there are none.
        forgotten_at: when it happened; None while there are none.
    """

    __slots__ = ("_batches", "_key_count", "_limit", "forgotten", "forgotten_at")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: deque[Batch] = deque()
        self._key_count = 0
        self.forgotten = 0
        self.forgotten_at: float | None = None

    def add(self, batch: Batch) -> None:
        """Remember a batch."""
        self._batches.append(batch)
        self._key_count += len(batch.keys)
        batches = self._batches
        while len(batches) > 1 and (self._key_count > self._limit or len(batches) > BATCH_LIMIT):
            oldest = batches.popleft()
            self._key_count -= len(oldest.keys)
            if oldest.number > self.forgotten:
                self.forgotten, self.forgotten_at = oldest.number, oldest.at

    def all(self) -> tuple[Batch, ...]:
        """Those that are remembered, but for what was told late: of its keys something newer may be forgotten."""
        return tuple(each for each in self._batches if each.number > self.forgotten)


class History:
    """What came and went, and, apart from it, what was refused.

    While nothing can be stored refusals are many; they would push out what they are about.

    Args:
        limit: keys that either part remembers.
    """

    __slots__ = ("_count", "moves", "refusals")

    def __init__(self, limit: int) -> None:
        self._count = 0
        self.moves = Batches(limit)
        self.refusals = Batches(limit)

    def batch(self, index: int, fate: Fate, keys: Collection[bytes], now: float) -> Batch:
        """Keys of the index with this serial number shared a fate; to be remembered later, when there is time."""
        self._count += 1
        return Batch(self._count, index, now, fate, keys)

    def add(self, index: int, fate: Fate, keys: Collection[bytes], now: float) -> None:
        """Keys of the index with this serial number shared a fate."""
        if keys:
            self.moves.add(self.batch(index, fate, PackedKeys(keys), now))

    def refuse(
        self, index: int, keys: Sequence[bytes], letters: Sequence[str], now: float
    ) -> None:
        """Keys were offered, some of them in vain; a StoreStatus letter for each says which."""
        if keys:
            self._count += 1
            self.refusals.add(
                Batch(self._count, index, now, Fate.NO_SPACE, PackedKeys(keys), "".join(letters))
            )


@dataclass(frozen=True, slots=True)
class Ended:
    """A generation of a space that a reset has ended: its number, when, and the serial number of each group's index."""

    generation: int
    at: float
    indexes: Sequence[int]


@dataclass(frozen=True, slots=True)
class Recollection:
    """What the books know of some keys of a group, taken under the lock; `explain` needs none.

    Args:
        keys: the keys.
        fates: of those that are READY or WRITING.
        generation, index: the space's current generation, and the serial number of the group's index in it.
        ended: by serial number of the group's index, the ended generations that are remembered.
        histories: of all spaces.
        forgotten_at: of the history that reaches back less far; None if nothing was forgotten since the start.
        now: when it was taken.
    """

    keys: Sequence[bytes]
    fates: Mapping[bytes, Fate]
    generation: int
    index: int
    ended: Mapping[int, Ended]
    histories: Sequence[Sequence[Batch]]
    forgotten_at: float | None
    now: float

    def explain(self) -> list[KeyFate]:
        """What became last of each key; UNKNOWN if the history has nothing of it."""
        known = {key: KeyFate(fate, 0.0, self.generation) for key, fate in self.fates.items()}
        return self._search(known, dict.fromkeys(self.keys, self.now))

    def explain_before(self, times: Mapping[bytes, float]) -> list[KeyFate]:
        """What had become of each key by the time that goes with it; READY if it was there."""
        return self._search({}, times)

    def _search(self, known: dict[bytes, KeyFate], times: Mapping[bytes, float]) -> list[KeyFate]:
        missing = set(self.keys).difference(known)
        batches = (batch for history in self.histories for batch in history)
        mine = (each for each in batches if each.index == self.index or each.index in self.ended)
        for batch in sorted(mine, key=lambda each: -each.number):
            for key, fate in batch.fates(missing).items():
                if batch.at <= times[key]:
                    known[key] = self._fate(batch, fate, times[key])
            missing.difference_update(known)
            if not missing:
                break
        unknown = KeyFate(Fate.UNKNOWN, 0.0, self.generation)
        return [known.get(key, unknown) for key in self.keys]

    def _fate(self, batch: Batch, fate: Fate, time: float) -> KeyFate:
        ended = self.ended.get(batch.index)
        generation = self.generation if ended is None else ended.generation
        if fate is not Fate.STORED:
            return KeyFate(fate, self.now - batch.at, generation)
        if ended is None or time < ended.at:
            # What was stored and is not there any more has left since: that would be remembered as well.
            return KeyFate(Fate.READY, 0.0, generation)
        return KeyFate(Fate.RESET, self.now - ended.at, generation)
