"""What spaces count, summed by tenant and model.

Spaces come and go, and a counter must never fall: the books keep on accounts what those had counted that are gone. So a
snapshot has the whole sums, and nothing is remembered from one scrape to the next.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from prometheus_client.core import Metric

from kvstow.server.core.snapshot import Snapshot, SpaceView
from kvstow.server.core.spaces import Account, SpaceCounters
from kvstow.server.core.types import StoreStatus, TransferState

from .families import blocks
from .family import Family
from .labels import shown

_Counts: TypeAlias = Counter[tuple[Family, tuple[str, ...]]]
"""By family and the labels besides tenant and model."""


def by_account(snapshot: Snapshot) -> Iterator[Metric]:
    """All families that are kept by tenant and model."""
    accounts, gauges = snapshot.counters.accounts.copied(), dict[Account, _Counts]()
    for space in snapshot.spaces:
        account = accounts.add(space.identity, space.counters)
        gauges.setdefault(account, Counter()).update(_gauged(space))
    sums: dict[tuple[str, ...], _Counts] = {}
    for account, counters in accounts.sums.items():
        # Names that differ behind the characters that are shown have series in common.
        counts = sums.setdefault(tuple(map(shown, account)), Counter())
        counts.update(_counted(counters))
        counts.update(gauges.get(account, _NOTHING))
    for family in (*COUNTED, *GAUGED):
        yield family.rows(_rows(family, sums))


def _counted(counters: SpaceCounters) -> _Counts:
    counts: _Counts = Counter(
        {
            (blocks.LOOKUPS, ()): counters.lookups,
            (blocks.LOOKUP_BLOCKS, ("hit",)): counters.hit_blocks,
            (blocks.LOOKUP_BLOCKS, ("pending",)): counters.pending_blocks,
            (blocks.LOOKUP_BLOCKS, ("miss",)): counters.missed_blocks,
            (blocks.STORED, ()): counters.stored_blocks,
            (blocks.LOADED, ()): counters.loaded_blocks,
            (blocks.MODEL_EVICTED, ()): counters.evicted_blocks,
            (blocks.RESETS, ()): counters.resets,
        }
    )
    for status in StoreStatus:
        counts[blocks.OFFERED, (status.name.lower(),)] = counters.offered[status.name]
    for outcome in (TransferState.FAILED, TransferState.ABANDONED):
        counts[blocks.UNSTORED, (outcome.value,)] = counters.unstored[outcome.name]
    return counts


def _gauged(space: SpaceView) -> _Counts:
    return Counter(
        {
            (blocks.BLOCKS, ("ready",)): space.ready_blocks,
            (blocks.BLOCKS, ("writing",)): space.writing_blocks,
            (blocks.RESETS_DRAINING, ()): len(space.draining),
        }
    )


_NOTHING: _Counts = Counter(
    {
        (blocks.BLOCKS, ("ready",)): 0,
        (blocks.BLOCKS, ("writing",)): 0,
        (blocks.RESETS_DRAINING, ()): 0,
    }
)

COUNTED = (
    blocks.LOOKUPS,
    blocks.LOOKUP_BLOCKS,
    blocks.OFFERED,
    blocks.STORED,
    blocks.LOADED,
    blocks.UNSTORED,
    blocks.MODEL_EVICTED,
    blocks.RESETS,
)
"""Families of which every space counts its own part."""

GAUGED = (blocks.BLOCKS, blocks.RESETS_DRAINING)
"""Families that say what spaces have now."""


def _rows(
    family: Family, sums: dict[tuple[str, ...], _Counts]
) -> Iterator[tuple[Sequence[str], float]]:
    for labels, counts in sums.items():
        for (owner, more), value in counts.items():
            if owner is family:
                yield (*labels, *more), value
