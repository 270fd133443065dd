"""Keys as engines have them and as they travel, and what a lookup found.

A single group needs no ceremony: a plain sequence is group 0. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from kvstow.v1 import cache_pb2

from .standing import Generation

Keys: TypeAlias = Sequence[bytes] | Mapping[int, Sequence[bytes]]
"""Block keys in prefix order: of group 0, or by group."""

Blocks: TypeAlias = Sequence[int] | Mapping[int, Sequence[int]]
"""Engine block ids, one for each key: of group 0, or by group."""

ItemT = TypeVar("ItemT", bytes, int)


@dataclass(frozen=True, slots=True)
class GroupHits:
    """What was found of one group.

    Attributes:
        hit_count: leading keys that are READY.
        pending_count: keys right behind them that are READY or being stored.
        states: if asked for, one letter per key: "R" READY, "W" being stored, "." absent.
    """

    hit_count: int = 0
    pending_count: int = 0
    states: str = ""


@dataclass(frozen=True, slots=True)
class Hits:
    """What a lookup found, and under which generation: whatever follows from it names that.

    Attributes:
        request: the engine's name for its request.
        generation: to be given to the `store` calls of this request.
        groups: by group; a group of which no key was asked for is not there.
        lease_id: what holds the hits until they are loaded or released; 0 if nothing is held.
        missed_because: why the daemon was not asked or did not answer; empty if it did.
    """

    request: str
    generation: Generation
    groups: Mapping[int, GroupHits]
    lease_id: int = 0
    missed_because: str = ""

    @property
    def count(self) -> int:
        """Leading blocks that are READY in every group that was asked for."""
        return min((found.hit_count for found in self.groups.values()), default=0)

    @property
    def pending_count(self) -> int:
        """What `count` would grow by if every running store ended well now."""
        reach = (found.hit_count + found.pending_count for found in self.groups.values())
        return min(reach, default=0) - self.count


def by_group(
    items: Sequence[ItemT] | Mapping[int, Sequence[ItemT]],
) -> dict[int, Sequence[ItemT]]:
    """The items of each group that has any."""
    groups = items if isinstance(items, Mapping) else {0: items}
    return {group: named for group, named in groups.items() if len(named)}


def pack_keys(keys: Mapping[int, Sequence[bytes]], key_bytes: int) -> list[cache_pb2.GroupKeys]:
    """The keys of a lookup as they travel.

    Raises:
        ValueError: a key does not have the length that the session's identity names.
    """
    return [
        cache_pb2.GroupKeys(group=group, keys=_join(named, key_bytes))
        for group, named in keys.items()
    ]


def pack_blocks(keys: Keys, blocks: Blocks, key_bytes: int) -> list[cache_pb2.GroupBlocks]:
    """The blocks of a transfer as they travel.

    Raises:
        ValueError: a key does not have the length that the session's identity names, or keys and
            blocks do not belong together.
    """
    named, numbered = by_group(keys), by_group(blocks)
    if {group: len(these) for group, these in named.items()} != {
        group: len(these) for group, these in numbered.items()
    }:
        raise ValueError("there must be one block for each key, in the same groups")
    return [
        cache_pb2.GroupBlocks(group=group, keys=_join(these, key_bytes), blocks=numbered[group])
        for group, these in named.items()
    ]


def _join(keys: Sequence[bytes], key_bytes: int) -> bytes:
    lengths = set(map(len, keys))
    if not lengths <= {key_bytes}:
        raise ValueError(f"keys of {sorted(lengths)} bytes, the identity says {key_bytes}")
    return b"".join(keys)
