"""The replay against a cache that is written down in the most obvious way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstow.server.core.books import Limits
from kvstow.server.replay import POLICY_NAMES, Engine, Outcome, Trace
from replay.traces import ids_of, trace_of


@dataclass
class LruCache:
    """A list of blocks, the coldest first; of all that one call names the head of the prefix is the warmest."""

    capacity: int
    blocks: list[int] = field(default_factory=list)
    hits: int = 0
    misses: int = 0
    stored: int = 0
    evicted: int = 0
    turned_away: int = 0

    def serve(self, ids: Sequence[int]) -> None:
        found = list(takewhile(self.blocks.__contains__, ids))
        self.hits += len(found)
        self.misses += len(ids) - len(found)
        self._warm(found)
        self._store(ids[len(found) :])

    def _store(self, offered: Sequence[int]) -> None:
        there = [block for block in offered if block in self.blocks]
        self._warm(there)
        new = [block for block in offered if block not in self.blocks]
        room = self.capacity - len(there)
        accepted = new[:room]
        self.turned_away += len(new) - len(accepted)
        self.stored += len(accepted)
        while len(self.blocks) + len(accepted) > self.capacity:
            self.blocks.pop(0)
            self.evicted += 1
        self.blocks += accepted
        self._warm([block for block in offered if block in self.blocks])

    def _warm(self, ids: Sequence[int]) -> None:
        self.blocks = [block for block in self.blocks if block not in ids]
        self.blocks += reversed(ids)


def outcome_of(trace: Trace, slot_count: int, policy: str) -> Outcome:
    """Replay a trace, with the books checked after every request."""
    engine = Engine(slot_count, policy, trace.longest)
    for request in trace.requests:
        engine.serve(request)
        engine.ledger.check()
    return engine.outcome()


prompts_of_a_few_blocks = st.lists(
    st.lists(st.integers(0, 12), max_size=6, unique=True), min_size=1, max_size=25
).filter(any)
"""Not only prefixes: an id may come behind different ones, which no engine does and every trace may."""


@st.composite
def conversations(draw: st.DrawFn) -> list[list[int]]:
    """Prompts of which each begins like one before it, or anew."""
    prompts: list[list[int]] = []
    fresh = 0
    for _ in range(draw(st.integers(1, 25))):
        begin = draw(st.sampled_from([[], *prompts]))
        kept = begin[: draw(st.integers(0, len(begin)))]
        count = draw(st.integers(0 if kept else 1, 4))
        prompts.append([*kept, *range(fresh, fresh + count)])
        fresh += count
    return prompts


@given(prompts=conversations() | prompts_of_a_few_blocks, capacity=st.integers(1, 16))
def test_lru_is_the_obvious_cache(prompts: list[list[int]], capacity: int) -> None:
    trace, cache = trace_of(prompts), LruCache(capacity)
    for request in trace.requests:
        cache.serve(ids_of(request))
    found = outcome_of(trace, capacity, "lru")
    assert found == Outcome(
        cache.hits, cache.misses, cache.stored, cache.evicted, cache.turned_away
    )


@pytest.mark.parametrize("policy", POLICY_NAMES)
@given(prompts=conversations() | prompts_of_a_few_blocks, spare=st.integers(0, 3))
def test_a_pool_for_everything_reaches_the_ceiling(
    policy: str, prompts: list[list[int]], spare: int
) -> None:
    trace = trace_of(prompts)
    found = outcome_of(trace, trace.distinct_count + spare, policy)
    assert (found.hits, found.misses) == (
        trace.known_count,
        trace.block_count - trace.known_count,
    )
    assert found.hit_ratio == trace.ceiling
    assert (found.stored, found.evicted, found.turned_away) == (trace.distinct_count, 0, 0)


@pytest.mark.parametrize("policy", POLICY_NAMES)
@given(prompts=conversations(), capacity=st.integers(1, 16))
def test_no_pool_passes_the_ceiling(policy: str, prompts: list[list[int]], capacity: int) -> None:
    trace = trace_of(prompts)
    found = outcome_of(trace, capacity, policy)
    assert found.hits <= trace.known_count
    assert found.hits + found.misses == trace.block_count
    assert 0 <= found.stored - found.evicted <= capacity


def test_a_trace_may_be_longer_than_a_session_may_have_transfers() -> None:
    trace = trace_of([[1]] * (Limits().max_transfers + 2))
    engine = Engine(1, "lru", trace.longest)
    for request in trace.requests:
        engine.serve(request)
    engine.ledger.check()
    assert engine.outcome() == Outcome(len(trace.requests) - 1, 1, 1, 0, 0)


def test_arc_keeps_what_is_used_again_through_a_scan() -> None:
    """Two prompts come again between prompts that come once, and those alone fill the pool: what arc is for."""
    again, prompts = [[1, 2], [3, 4]], [[1, 2], [3, 4]]
    for scan in range(20):
        once = range(100 + 10 * scan, 110 + 10 * scan)
        prompts += [*again, *batched(once)]
    trace = trace_of(prompts)
    lru, arc = (outcome_of(trace, 8, policy) for policy in ("lru", "arc"))
    assert lru.hits == 4  # the first time only
    assert arc.hits == trace.known_count == 80


def batched(ids: Sequence[int]) -> list[list[int]]:
    """Prompts of two blocks each."""
    return [list(ids[at : at + 2]) for at in range(0, len(ids), 2)]
