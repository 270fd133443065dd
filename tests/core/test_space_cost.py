"""What a space costs before anything is stored in it: whoever may open sessions may have spaces made."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from core.engines import SLOT_BYTES, identity, make_ledger
from kvstow.server.core.ledger import Ledger

POOL_SLOTS, EXTENT_BYTES = 1 << 30, 64 << 20
"""A pool of 64 GiB, and extents as they are by default."""

GROUPS = 64
"""As many as an identity that comes over the wire may have."""

MOST_BYTES = 4 << 20


@contextmanager
def costing(most_bytes: int) -> Iterator[None]:
    """What happens meanwhile leaves no more memory in use than this."""
    tracemalloc.start()
    try:
        yield
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used_bytes < most_bytes


def large() -> Ledger:
    return make_ledger(POOL_SLOTS, extent_bytes=EXTENT_BYTES)


def test_a_space_of_many_groups_of_tiny_blocks_costs_little() -> None:
    ledger = large()
    with costing(MOST_BYTES):
        ledger.open_session(identity(block_bytes=[SLOT_BYTES] * GROUPS), "engine", now=0.0)


def test_a_reset_of_it_costs_as_little() -> None:
    ledger = large()
    session = ledger.open_session(identity(block_bytes=[SLOT_BYTES] * GROUPS), "engine", now=0.0)
    space, _ = ledger.space_of(session)
    with costing(MOST_BYTES):
        ledger.reset(space, now=0.0)
