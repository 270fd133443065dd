"""The keys at which the latest lookups ended, for whoever asks why the hit rate is bad. `Misses` is used under the lock.

A lookup of however many keys adds one at most, and a space has a few dozen: this is called with every lookup.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kvstow.server.core.history import Recollection
from kvstow.server.core.types import Fate, GroupHits, GroupKeys, KeyFate, LookupResult, SpaceId

LIMIT = 64
"""Keys of a space; one that ends several lookups is one of them."""


class Miss(NamedTuple):
    """A key at which lookups ended.

    Args:
        generation: in which the latest of these lookups was.
        hit_count, key_count: of that lookup, leading READY keys of the group and all of its keys.
        writing: the key was WRITING then.
        at: when that was.
        lookup_count: how many lookups have ended here since the key was remembered.
    """

    group: int
    key: bytes
    generation: int
    hit_count: int
    key_count: int
    writing: bool
    at: float
    lookup_count: int


Ring: TypeAlias = OrderedDict[tuple[int, bytes], Miss]
"""Those of a space by group and key, oldest first."""


@dataclass(frozen=True, slots=True)
class ExplainedMiss:
    """A miss, how many seconds ago it was, and what had become of the key by then."""

    miss: Miss
    age_s: float
    fate: KeyFate


def explained(misses: Sequence[Miss], recalled: Mapping[int, Recollection]) -> list[ExplainedMiss]:
    """Why keys were missing; needs no lock.

    Args:
        recalled: what the books know of them, by group.
    """
    fates: dict[tuple[int, bytes], KeyFate] = {}
    for group, known in recalled.items():
        times = {miss.key: miss.at for miss in misses if miss.group == group}
        found = zip(known.keys, known.explain_before(times), strict=True)
        fates |= {(group, key): fate for key, fate in found}
    return [
        ExplainedMiss(
            miss, recalled[miss.group].now - miss.at, _fate(miss, fates[miss.group, miss.key])
        )
        for miss in misses
    ]


def _fate(miss: Miss, known: KeyFate) -> KeyFate:
    """What the history cannot know: that the key was WRITING, and which generation was the current one."""
    fate = Fate.WRITING if miss.writing else known.fate
    if fate in (Fate.WRITING, Fate.UNKNOWN):
        return KeyFate(fate, 0.0, miss.generation)
    return known


class Misses:
    """Those of all spaces.

    Args:
        limit: keys of a space.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._spaces: dict[SpaceId, Ring] = {}

    def note(
        self,
        space: SpaceId,
        asked: Sequence[GroupKeys],
        result: LookupResult,
        now: float,
        living: Callable[[], Iterable[SpaceId]],
    ) -> None:
        """A lookup has ended.

        Args:
            living: says which spaces there are.
        """
        for group, hits in zip(asked, result.groups, strict=True):
            if hits.hit_count < len(group.keys):
                self._add(self._of(space, living), result.generation, group, hits, now)
                return

    def latest(self, space: SpaceId) -> list[Miss]:
        """Those of a space, newest first."""
        return list(reversed(self._spaces.get(space, Ring()).values()))

    def _of(self, space: SpaceId, living: Callable[[], Iterable[SpaceId]]) -> Ring:
        if space not in self._spaces:
            # Spaces that are gone leave when one comes.
            kept = self._spaces
            self._spaces = {each: kept[each] for each in living() if each in kept}
            self._spaces[space] = OrderedDict()
        return self._spaces[space]

    def _add(
        self, known: Ring, generation: int, group: GroupKeys, hits: GroupHits, now: float
    ) -> None:
        key = group.keys[hits.hit_count]
        before = known.pop((group.group, key), None)
        known[group.group, key] = Miss(
            group.group,
            key,
            generation,
            hits.hit_count,
            len(group.keys),
            writing=hits.pending_count > 0,
            at=now,
            lookup_count=1 if before is None else before.lookup_count + 1,
        )
        if len(known) > self._limit:
            known.popitem(last=False)
