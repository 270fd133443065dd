"""News of the scheduler half as vLLM's KV events.

A block is named by its hash and group alone: which tokens it holds, the engine's own events have
said. What the daemon evicts is not heard of, so a consumer must take a miss for an answer.
"""

from collections.abc import Iterator

from vllm.distributed.kv_events import MEDIUM_CPU, BlockRemoved, BlockStored, KVCacheEvent
from vllm.v1.core.kv_cache_utils import BlockHash, maybe_convert_block_hash

from kvstow.client.engines.offload.account import News


def events_of(news: News) -> Iterator[KVCacheEvent]:
    """One event for each block."""
    for group, key in news.dropped:
        yield BlockRemoved(
            block_hashes=[maybe_convert_block_hash(BlockHash(key))],
            medium=MEDIUM_CPU,
            group_idx=group,
        )
    for group, key in news.stored:
        yield BlockStored(
            block_hashes=[maybe_convert_block_hash(BlockHash(key))],
            parent_block_hash=None,
            token_ids=[],
            block_size=0,
            lora_id=None,
            medium=MEDIUM_CPU,
            lora_name=None,
            group_idx=group,
        )
