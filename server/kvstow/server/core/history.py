"""Why a key is missing: the batches in which keys lately came and went, and the search in them.

A batch is kept as a record of numbers, strings and bytes, its keys in one piece: the garbage collector stops walking such a
record when it has met it once, and it does not take long to free. The oldest batches are forgotten when there are too many keys
or batches. A record never changes, so references to all of them are copied under the lock, and searched without it.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TypeAlias

from .types import Fate, KeyFate, StoreStatus

BATCH_LIMIT = 1 << 14
"""Batches of one history, however few keys they have: as many references are copied when somebody asks."""

Record: TypeAlias = tuple[int, int, float, str, int, bytes, str]
"""A batch as it is kept: number, index, when, value of the fate, how many keys, the keys in one piece, letters."""

_number, _index, _length = itemgetter(0), itemgetter(1), itemgetter(4)

_REFUSED = {
    StoreStatus.NO_SPACE.value: Fate.NO_SPACE,
    StoreStatus.NOT_ADMITTED.value: Fate.NOT_ADMITTED,
}


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

    def record(self, keys: Collection[bytes]) -> Record:
        """What is kept of it and of these of its keys, all of one length; at least one."""
        joined = b"".join(keys)
        return self.number, self.index, self.at, self.fate.value, len(keys), joined, self.letters

    @classmethod
    def recalled(cls, record: Record) -> "Batch":
        """What was recorded."""
        number, index, at, fate, count, joined, letters = record
        size = len(joined) // count
        keys = [joined[start : start + size] for start in range(0, len(joined), size)]
        return cls(number, index, at, Fate(fate), keys, letters)

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

    __slots__ = ("_key_count", "_limit", "_records", "forgotten", "forgotten_at")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._records: deque[Record] = deque()
        self._key_count = 0
        self.forgotten = 0
        self.forgotten_at: float | None = None

    def add(self, record: Record) -> None:
        """Remember a batch that has keys."""
        records = self._records
        records.append(record)
        self._key_count += _length(record)
        while len(records) > 1 and (self._key_count > self._limit or len(records) > BATCH_LIMIT):
            oldest = records.popleft()
            self._key_count -= _length(oldest)
            number, _, at, *_ = oldest
            if number > self.forgotten:
                self.forgotten, self.forgotten_at = number, at

    def all(self) -> tuple[Record, ...]:
        """Those that are remembered, but for what was told late: of its keys something newer may be forgotten."""
        return tuple(each for each in self._records if _number(each) > self.forgotten)


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
            self.moves.add(self.batch(index, fate, keys, now).record(keys))

    def refuse(
        self, index: int, keys: Sequence[bytes], letters: Sequence[str], now: float
    ) -> None:
        """Keys were offered, some of them in vain; a StoreStatus letter for each says which."""
        if keys:
            self._count += 1
            batch = Batch(self._count, index, now, Fate.NO_SPACE, keys, "".join(letters))
            self.refusals.add(batch.record(keys))


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
        voided: what they are to be told of abandoned stores.
        forgotten_at: of the history that reaches back less far; None if nothing was forgotten since the start.
        now: when it was taken.
    """

    keys: Sequence[bytes]
    fates: Mapping[bytes, Fate]
    generation: int
    index: int
    ended: Mapping[int, Ended]
    histories: Sequence[Sequence[Record]]
    voided: Sequence[Batch]
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
        for batch in self._newest_first():
            for key, fate in batch.fates(missing).items():
                if batch.at <= times[key]:
                    known[key] = self._fate(batch, fate, times[key])
            missing.difference_update(known)
            if not missing:
                break
        unknown = KeyFate(Fate.UNKNOWN, 0.0, self.generation)
        return [known.get(key, unknown) for key in self.keys]

    def _newest_first(self) -> Iterator[Batch]:
        """The batches of the group's indexes."""
        indexes = {self.index, *self.ended}
        records = [each for each in chain(*self.histories) if _index(each) in indexes]
        voided = [each for each in self.voided if each.index in indexes]
        records.sort(key=_number, reverse=True)
        voided.sort(key=attrgetter("number"), reverse=True)
        recalled = map(Batch.recalled, records)
        return merge(recalled, voided, key=attrgetter("number"), reverse=True)

    def _fate(self, batch: Batch, fate: Fate, time: float) -> KeyFate:
        ended = self.ended.get(batch.index)
        generation = self.generation if ended is None else ended.generation
        if fate is not Fate.STORED:
            return KeyFate(fate, self.now - batch.at, generation)
        if ended is None or time < ended.at:
            # What was stored and is not there any more has left since: that would be remembered as well.
            return KeyFate(Fate.READY, 0.0, generation)
        return KeyFate(Fate.RESET, self.now - ended.at, generation)
