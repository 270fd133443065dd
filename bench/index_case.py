"""One ledger of one size under one policy, next to a bare dictionary; each is measured in a process of its own.

They take turns, and so does who goes first. What a request costs is the median over its rounds; the longest call is
the longest of all calls of the ledger, also of those that only fill or empty it.
"""

import gc
import mmap
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kvstow.server.core.books import Limits
from kvstow.server.core.types import LeaseId

from .bare import Bare
from .books import Shelf
from .call_times import CallTimes, processor_ns
from .keys import Keys, Numbers

LOOKUP_KEYS = 2048
STORE_BLOCKS = 256
HELD_KEYS = 1024
"""Of one lease."""

RESET_LEASES = 256
"""That a reset finds."""

SMALL_STORES = Limits().max_transfers - 1
LARGEST_STORES = 64
"""That a reset, a cancel and the end of a session find under way."""

LARGEST_CALL = Limits().max_keys
LARGEST_ROUNDS = 4
CHECKED_ENTRIES = 200_000
"""`Ledger.check` recounts everything; with more entries than this it would take longer than all the rest."""

TOUCHED = {"lru": 1.0, "arc": 0.5}
"""Share of the blocks that are used once before anything is evicted. ARC takes first what was never used: if all were,
that would be what was stored a moment ago."""


class Case:
    """The measurement of one size.

    Args:
        entries: READY blocks; a multiple of STORE_BLOCKS.
        policy: of eviction.
        rounds: how often each request is repeated.
    """

    def __init__(self, entries: int, policy: str, rounds: int) -> None:
        self._entries, self._policy, self._rounds = entries, policy, rounds
        limit = entries + 2 * rounds * STORE_BLOCKS + LARGEST_ROUNDS * LARGEST_CALL
        self._random = np.random.default_rng(seed=2)
        self._times = CallTimes()
        self._keys = Keys(limit)
        self._shelf = Shelf(entries, policy, self._times)
        self._bare = Bare(self._keys, limit)
        self._stored_count = 0
        self._costs: dict[str, dict[str, float]] = {}

    def run(self) -> dict[str, Any]:
        """Measure everything, in an order in which each finds the books as it needs them."""
        tail = min(self._entries // 4 // STORE_BLOCKS, self._rounds)
        bytes_per_entry = self._fill(self._entries - tail * STORE_BLOCKS)
        self._store(tail)
        self._lookup()
        self._offer_again()
        self._evict(self._shuffle())
        self._refuse()
        self._call_largest()
        self._store_large()
        self._collect("full collection")
        self._hold(self._stored_count - RESET_LEASES * HELD_KEYS)
        self._shelf.reset()
        self._collect("full collection after a reset")
        self._abandon()
        if self._entries <= CHECKED_ENTRIES:
            self._shelf.ledger.check()
        return {
            "entries": self._entries,
            "policy": self._policy,
            "bytes_per_entry": bytes_per_entry,
            "ns_per_block": self._costs,
            "longest": {name: asdict(each) for name, each in self._times.longest.items()},
        }

    def _fill(self, count: int) -> float:
        """Store so many blocks; returns the bytes of memory that one of them takes."""
        before = _resident_bytes()
        while self._stored_count < count:
            self._shelf.store(self._keys.fresh(self._new(STORE_BLOCKS)))
        taken = _resident_bytes() - before
        self._bare.fill(count)
        return taken / count

    def _store(self, rounds: int) -> None:
        self._compare(
            "store",
            ("begin_store", "finish"),
            rounds,
            lambda: self._new(STORE_BLOCKS),
            self._shelf.store,
            self._bare.store,
        )

    def _lookup(self) -> None:
        last = self._stored_count - LOOKUP_KEYS + 1
        picks: dict[str, Callable[[], Numbers]] = {
            "lookup, one prefix": lambda: self._random.integers(last) + np.arange(LOOKUP_KEYS),
            "lookup, scattered": lambda: self._random.integers(
                self._stored_count, size=LOOKUP_KEYS
            ),
        }
        for name, pick in picks.items():
            self._compare(
                name,
                ("lookup",),
                self._rounds,
                pick,
                self._shelf.lookup,
                lambda _, keys: self._bare.lookup(keys),
            )

    def _offer_again(self) -> None:
        last = self._stored_count - LOOKUP_KEYS + 1
        self._compare(
            "offer again",
            ("begin_store",),
            self._rounds,
            lambda: self._random.integers(last) + np.arange(LOOKUP_KEYS),
            self._shelf.offer_again,
            lambda _, keys: self._bare.lookup(keys),
        )

    def _shuffle(self) -> Numbers:
        """Use prefixes in random order; returns all numbers in the order in which most of them will be evicted."""
        tails_first = np.arange(self._entries).reshape(-1, STORE_BLOCKS)[:, ::-1]
        prefixes = self._random.permutation(len(tails_first))
        used = prefixes[: int(TOUCHED[self._policy] * len(prefixes))]
        for prefix in used:
            self._shelf.lookup(self._keys.fresh(tails_first[prefix][::-1]), touch=True)
        unused = np.setdiff1d(prefixes, used)
        return np.concatenate([tails_first[unused], tails_first[used]]).ravel()

    def _evict(self, order: Numbers) -> None:
        def replace(numbers: Numbers, keys: list[bytes]) -> None:
            nonlocal order
            self._bare.replace(order[:STORE_BLOCKS], numbers, keys)
            order = order[STORE_BLOCKS:]

        self._compare(
            "evict and store",
            ("begin_store", "finish"),
            min(self._rounds, self._entries // STORE_BLOCKS),
            lambda: self._new(STORE_BLOCKS),
            self._shelf.store,
            replace,
        )

    def _refuse(self) -> None:
        """Hold everything, offer more, and let go again."""
        leases = self._hold(0)
        if self._shelf.held_count() != self._entries:
            raise RuntimeError(f"{self._shelf.held_count()} of {self._entries} blocks are there")
        offers = iter(np.arange(self._rounds * STORE_BLOCKS).reshape(self._rounds, STORE_BLOCKS))
        self._compare(
            "refused store",
            ("begin_store",),
            self._rounds,
            lambda: self._stored_count + next(offers),
            self._shelf.offer_in_vain,
            lambda _, keys: self._bare.lookup(keys),
        )
        self._collect("full collection, everything held")
        for lease in leases:
            self._shelf.release(lease)

    def _hold(self, first: int) -> list[LeaseId]:
        """Put all blocks from `first` on that are there under leases."""
        leases = []
        for start in range(max(first, 0), self._stored_count, HELD_KEYS):
            numbers = np.arange(start, min(start + HELD_KEYS, self._stored_count))
            lease = self._shelf.hold_ready(self._keys.fresh(numbers))
            if lease is not None:
                leases.append(lease)
        return leases

    def _call_largest(self) -> None:
        """Store, hold, release, load and offer again as many blocks as one call may name.

        First those that were evicted, which ARC remembers; then new ones.
        """
        largest = min(LARGEST_CALL, self._entries)
        for numbers in (
            self._evicted(largest),
            *(self._new(largest) for _ in range(LARGEST_ROUNDS)),
        ):
            keys = self._keys.fresh(numbers)
            self._shelf.store(keys)
            self._shelf.offer_again(keys)
            lease = self._shelf.hold_ready(keys)
            if lease is not None:
                self._shelf.release(lease)
            self._shelf.load(keys)

    def _store_large(self) -> None:
        """Blocks of another model come into the full pool, which nobody uses any more."""
        largest = min(LARGEST_CALL, self._entries)
        numbers = np.arange(LARGEST_ROUNDS * largest).reshape(LARGEST_ROUNDS, largest)
        self._shelf.store_large([self._keys.fresh(each) for each in numbers])

    def _abandon(self) -> None:
        """End as many stores under way as the books allow, of one block each, and as many blocks in largest ones."""
        largest = min(LARGEST_CALL, self._entries)
        self._abandon_stores(min(SMALL_STORES, self._entries), 1)
        self._abandon_stores(min(LARGEST_STORES, self._entries // largest), largest)

    def _abandon_stores(self, count: int, size: int) -> None:
        self._shelf.abandon(
            count, size, lambda at: self._keys.fresh(np.arange(at * size, (at + 1) * size))
        )

    def _evicted(self, count: int) -> Numbers:
        """The first numbers of blocks that are not there any more, up to `count`."""
        found: list[Numbers] = []
        for start in range(0, self._stored_count, LARGEST_CALL):
            numbers = np.arange(start, min(start + LARGEST_CALL, self._stored_count))
            found.append(numbers[self._shelf.missing(self._keys.fresh(numbers))])
            if sum(map(len, found)) >= count:
                break
        return np.concatenate(found)[:count]

    def _collect(self, name: str) -> None:
        self._times.time(name, gc.collect)

    def _new(self, count: int) -> Numbers:
        """Numbers that were never stored and now will be."""
        self._stored_count += count
        return np.arange(self._stored_count - count, self._stored_count)

    def _compare(
        self,
        request: str,
        verbs: Sequence[str],
        rounds: int,
        pick: Callable[[], Numbers],
        ledger: Callable[[list[bytes]], None],
        bare: Callable[[Numbers, list[bytes]], None],
    ) -> None:
        """Make the same request of both; it costs the ledger its calls of `verbs`, the dictionary everything."""
        costs: dict[str, list[float]] = {"ledger": [], "bare": []}
        for turn in range(rounds):
            numbers = pick()
            for side in sorted(costs, reverse=bool(turn % 2)):
                keys = self._keys.fresh(numbers)
                began = processor_ns()
                if side == "bare":
                    bare(numbers, keys)
                    took = processor_ns() - began
                else:
                    ledger(keys)
                    took = sum(self._times.calls[f"{verb} {len(keys)}"][-1] for verb in verbs)
                costs[side].append(took / len(keys))
        self._costs[request] = {side: statistics.median(each) for side, each in costs.items()}


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
