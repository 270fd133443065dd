"""The scheduler half in vLLM: opens the session, and reads vLLM's block tables and free queue."""

import logging
import time
from collections.abc import Iterator, Sequence

from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorWorkerMetadata
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_block_hash, get_group_id
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import KVCacheConfig

from kvstow.client import Callbacks, Client
from kvstow.client.engines.offload.engine import Engine
from kvstow.client.engines.offload.epochs import HeardResets
from kvstow.client.engines.offload.options import Options
from kvstow.client.engines.offload.scheduler import SchedulerHalf
from kvstow.client.engines.offload.steps import Step

from .layout import engine_name, identity_of, shape_of
from .metadata import ReportMetadata
from .written import written_blocks

_CLOSE_S = 2.0

_log = logging.getLogger(__name__)


class EngineScheduler:
    """Opens the session of one engine; the daemon may come later.

    Attributes:
        half: what the connector passes its calls to.
    """

    def __init__(self, config: VllmConfig, cache: KVCacheConfig, options: Options) -> None:
        transfer = config.kv_transfer_config
        if transfer.kv_load_failure_policy != "recompute":
            # vLLM reads this after it has made the connector. To fail a request because a cache
            # has lost a block would be absurd.
            _log.info("kv_load_failure_policy is 'recompute' with kvstow")
            transfer.kv_load_failure_policy = "recompute"
        if transfer.kv_role != "kv_both":
            raise ValueError(f"kv_role must be 'kv_both' with kvstow, not {transfer.kv_role!r}")
        if options.is_lazy and not config.cache_config.enable_prefix_caching:
            raise ValueError("mode 'lazy' needs vLLM's own prefix caching")
        self._shape = shape_of(config, cache)
        self._manager: KVCacheManager | None = None
        self._lazy_blocks = options.lazy_blocks or self._step_blocks(config)
        self._client = Client(options.target, options.budgets)
        heard = HeardResets()
        session = self._client.open(
            identity_of(config, cache, options),
            engine_name(options, transfer.engine_id),
            callbacks=Callbacks(heard.hear, heard.hear_reopening),
            must_connect=False,
        )
        events = config.kv_events_config
        engine = Engine(
            shape=self._shape,
            world_size=config.parallel_config.world_size,
            table=self._table,
            prompt_only=options.offload_prompt_only,
            evictable=self._evictable if options.is_lazy else None,
            lookup_budget_s=options.budgets.lookup_s,
            keeps_news=bool(events and events.enable_kv_cache_events),
        )
        self.half = SchedulerHalf(session, heard, engine, time.monotonic)
        # vLLM looks at the role between making the connector and `bind`. From one that loads it keeps
        # the blocks that a step under way may write, and then cannot reset running requests. Here
        # loads wait for such steps (`Loads.send`).
        self._transfer_config = transfer
        transfer.kv_role = "kv_producer"

    def bind(self, manager: KVCacheManager) -> None:
        """vLLM has made its block tables."""
        assert manager.block_pool.null_block.block_id == self._shape.null_block
        self._transfer_config.kv_role = "kv_both"
        self._manager = manager

    def step(self, output: SchedulerOutput) -> Step:
        """What the workers do in a step."""
        return self.half.step(written_blocks(output, self._shape))

    def hear(self, metadata: KVConnectorWorkerMetadata | None) -> None:
        """The workers have done a step."""
        self.half.hear(metadata.report if isinstance(metadata, ReportMetadata) else None)

    def close(self) -> None:
        """The engine ends; what was stored stays."""
        self.half.close(_CLOSE_S)
        self._client.close()

    def _step_blocks(self, config: VllmConfig) -> int:
        """Twice the blocks that one step can fill."""
        tokens: int = config.scheduler_config.max_num_batched_tokens
        return 2 * sum(-(-tokens // group.block_tokens) for group in self._shape.groups)

    def _table(self, request_id: str, group: int, start: int, stop: int) -> Sequence[int]:
        assert self._manager is not None
        blocks = self._manager.get_blocks(request_id).blocks[group]
        return [block.block_id for block in blocks[start:stop]]

    def _evictable(self) -> Iterator[tuple[int, bytes, int]]:
        """Full cached blocks among the first of the free queue."""
        assert self._manager is not None
        queue = self._manager.block_pool.free_block_queue
        for _, block in zip(range(self._lazy_blocks), queue.iter_blocks_after(None), strict=False):
            if block.block_hash is None or block.block_hash_num_tokens is None:
                continue
            group = get_group_id(block.block_hash)
            if block.block_hash_num_tokens % self._shape.groups[group].block_tokens == 0:
                yield group, get_block_hash(block.block_hash), block.block_id
