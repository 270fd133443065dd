"""What vLLM says of kvstow: counters, external cache hits and KV events."""

from collections.abc import Iterator
from typing import Any

import pytest
from vllm.config import KVEventsConfig
from vllm.distributed.kv_events import BlockRemoved, BlockStored, EventBatch, NullEventPublisher
from vllm.v1.metrics.reader import Counter

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, OpenEngine, connector, prompt, running_engine
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPT = prompt(1, 300)
BLOCKS = 300 // BLOCK_TOKENS


class Recorder(NullEventPublisher):  # type: ignore[misc]  # vLLM's types are unknown
    """Keeps what is published."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def publish(self, events: EventBatch) -> None:
        """Keep it."""
        self.events += events.events

    def taken(self, kind: Any) -> set[Any]:
        """Hashes in the events of one kind that are about kvstow."""
        return {
            each
            for event in self.events
            if isinstance(event, kind) and event.medium == "CPU"
            for each in event.block_hashes
        }


@pytest.fixture(scope="module")
def engine(daemon: Kvstowd) -> Iterator[OpenEngine]:
    """An engine that keeps statistics and publishes events."""
    with running_engine(
        tiny_llama(),
        connector(daemon.target, **PATIENT),
        disable_log_stats=False,
        kv_events_config=KVEventsConfig(enable_kv_cache_events=True, publisher="null"),
    ) as running:
        yield running


def counters(engine: OpenEngine) -> dict[str, int]:
    """vLLM's counters, those of all label values together."""
    found: dict[str, int] = {}
    for metric in engine.llm.get_metrics():
        if isinstance(metric, Counter):
            found[metric.name] = found.get(metric.name, 0) + metric.value
    return found


def test_counters_and_events_tell_what_happened(engine: OpenEngine, books: Books) -> None:
    recorder = Recorder()
    engine.scheduler.kv_event_publisher = recorder
    engine.run(PROMPT)
    engine.forget()
    books.wait_quiet()
    engine.run(PROMPT)
    engine.settle()
    books.wait_quiet()
    seen = counters(engine)
    assert seen["vllm:external_prefix_cache_hits"] == BLOCKS * BLOCK_TOKENS
    assert seen["vllm:kvstow_loaded_blocks"] == BLOCKS
    assert seen["vllm:kvstow_stored_blocks"] == BLOCKS
    assert seen["vllm:kvstow_lookups"] == books.counters().lookups
    assert seen["vllm:kvstow_failures"] == 0
    stored = recorder.taken(BlockStored)
    assert len(stored) == BLOCKS
    assert not recorder.taken(BlockRemoved)

    assert engine.reset()
    engine.run(prompt(2, BLOCK_TOKENS - 1))
    assert recorder.taken(BlockRemoved) == stored
