"""What spaces count, summed by tenant and model.

Spaces come and go, and a counter must never fall: what a space had counted when it was last seen stays in the sums of its
tenant and model after it is gone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from prometheus_client.core import Metric

from kvstow.server.core.snapshot import SpaceView
from kvstow.server.core.types import SpaceId, StoreStatus, TransferState

from .families import blocks
from .family import Family
from .labels import BoundedLabels

_Counts: TypeAlias = Counter[tuple[Family, tuple[str, ...]]]
"""By family and the labels besides tenant and model."""

_SHOWN = 64
"""Combinations of tenant and model that get their own label values."""


class SpaceSums:
    """Sums over spaces; for one thread at a time, which must show snapshots in the order in which they were taken."""

    def __init__(self) -> None:
        self._labels = BoundedLabels(2, _SHOWN)
        self._living: dict[SpaceId, tuple[tuple[str, ...], _Counts]] = {}
        self._gone: dict[tuple[str, ...], _Counts] = {}

    def collect(self, spaces: Sequence[SpaceView]) -> Iterator[Metric]:
        """All families that are kept by tenant and model."""
        self._see(spaces)
        totals = {labels: counts.copy() for labels, counts in self._gone.items()}
        for labels, counts in self._living.values():
            totals.setdefault(labels, Counter()).update(counts)
        for family in COUNTED:
            yield family.rows(_rows(family, totals))
        gauges = self._gauges(spaces, totals)
        for family in GAUGED:
            yield family.rows(_rows(family, gauges))

    def _see(self, spaces: Sequence[SpaceView]) -> None:
        before, self._living = self._living, {}
        for space in spaces:
            labels = self._labels.of(space.identity.tenant, space.identity.model)
            self._living[space.id] = (labels, _counted(space))
        for gone in before.keys() - self._living.keys():
            labels, counts = before[gone]
            self._gone.setdefault(labels, Counter()).update(counts)

    def _gauges(
        self, spaces: Sequence[SpaceView], known: Iterable[tuple[str, ...]]
    ) -> dict[tuple[str, ...], _Counts]:
        """What is there now; zero for those of which nothing is left."""
        sums: dict[tuple[str, ...], _Counts] = {labels: Counter(_NOTHING) for labels in known}
        for space in spaces:
            labels, _ = self._living[space.id]
            sums[labels].update(_gauged(space))
        return sums


def _counted(space: SpaceView) -> _Counts:
    counters = space.counters
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
