"""How much of other slot sizes one store drops: so much that nobody waits long for it, and something for each of its groups."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from core.engines import SLOT_BYTES, Engine, identity, make_ledger

SLOTS_PER_EXTENT = 4
EXTENT_COUNT = 30
SLOT_COUNT = EXTENT_COUNT * SLOTS_PER_EXTENT

LIMIT = 24
"""Blocks: those of six extents."""


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """As many blocks as one store may drop here."""
    with patch("kvstow.server.core.reclaiming.RECLAIM_BLOCKS", LIMIT):
        yield


def newcomer(*block_bytes: int) -> Engine:
    """An engine with groups of these block sizes that comes into a pool that is full of blocks of another size."""
    ledger = make_ledger(SLOT_COUNT, extent_bytes=SLOTS_PER_EXTENT * SLOT_BYTES)
    first = Engine(ledger)
    assert first.store(range(SLOT_COUNT)) == "A" * SLOT_COUNT
    return Engine(ledger, identity("newcomer", block_bytes=block_bytes))


def dropped(engine: Engine) -> int:
    """Blocks that were dropped for another slot size."""
    return engine.ledger.snapshot(now=engine.now).evictions.reclaimed


@pytest.mark.parametrize(
    ("block_bytes", "statuses"),
    [
        ((128,), "AAAAAAAAAAAANNNN"),
        ((128, 128), "AAAAAANNAAAAAANN"),
        ((128, 192), "AAAAAANNAAANNNNN"),
        ((256, 192, 256), "AANNNAANNNAANNN"),
    ],
)
def test_groups_share_what_one_store_drops(block_bytes: tuple[int, ...], statuses: str) -> None:
    engine = newcomer(*block_bytes)
    offered = range(len(statuses) // len(block_bytes))
    assert engine.store(*[offered] * len(block_bytes)) == statuses
    assert dropped(engine) == LIMIT


def test_every_group_gets_an_extent() -> None:
    engine = newcomer(*[256, 192] * 4)
    assert engine.store(*[range(2)] * 8) == "AN" * 8
    assert dropped(engine) == 8 * SLOTS_PER_EXTENT


def test_extents_that_cannot_be_taken_do_not_count() -> None:
    """There is an extent with more blocks than others have; they are held."""
    ledger = make_ledger(SLOT_COUNT, extent_bytes=SLOTS_PER_EXTENT * SLOT_BYTES)
    small = Engine(ledger)
    assert small.store(range(4)) == "AAAA"
    small.hold(range(4))
    first = Engine(ledger, identity("first", block_bytes=(2 * SLOT_BYTES,)))
    assert first.store(range(2 * EXTENT_COUNT - 2)) == "A" * (2 * EXTENT_COUNT - 2)
    engine = Engine(ledger, identity("newcomer", block_bytes=(4 * SLOT_BYTES,)))
    assert engine.store(range(16)) == "A" * (LIMIT // 2) + "N" * (16 - LIMIT // 2)
    assert dropped(engine) == LIMIT
