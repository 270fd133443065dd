"""vLLM's connector interface, in front of the two halves; see docs/engines/vllm.md.

vLLM makes one connector with the scheduler and one with each worker. Nothing is decided here: each
method translates vLLM's types and passes on.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.distributed.kv_events import KVCacheEvent
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorTransferResults,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)
from vllm.v1.attention.backend import AttentionMetadata
from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.kv_cache_interface import KVCacheConfig
from vllm.v1.metrics.cache_hit_source import CacheHitSource
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request

from kvstow.client.engines.offload.options import parse_options

from .kv_events import events_of
from .layout import LAYOUT
from .metadata import ReportMetadata, StepMetadata
from .scheduling import EngineScheduler
from .serving import EngineWorker
from .stats import KvstowMetrics, KvstowStats


class KvstowConnector(KVConnectorBase_V1, SupportsHMA):
    """Serves vLLM's prefixes from kvstow.

    Raises:
        ValueError: an option is unknown, or the engine's configuration is not supported.
    """

    _cache_hit_source = CacheHitSource.HOST

    def __init__(
        self,
        vllm_config: VllmConfig,
        role: KVConnectorRole,
        kv_cache_config: KVCacheConfig,
    ) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        options = parse_options(self._kv_transfer_config.kv_connector_extra_config)
        self._scheduler: EngineScheduler | None = None
        self._worker: EngineWorker | None = None
        if role is KVConnectorRole.SCHEDULER:
            self._scheduler = EngineScheduler(vllm_config, kv_cache_config, options)
        else:
            self._worker = EngineWorker(vllm_config, kv_cache_config, options)

    @classmethod
    def get_required_kvcache_layout(cls, vllm_config: VllmConfig) -> str | None:
        """The order of dimensions in which a block of a layer is one piece of memory."""
        return LAYOUT

    @property
    def requires_kv_delivery(self) -> bool:
        """A block that is not stored is a miss later on, nothing worse."""
        return False

    # The scheduler's side.

    @property
    def _half(self) -> EngineScheduler:
        assert self._scheduler is not None
        return self._scheduler

    def bind_kv_cache_manager(self, kv_cache_manager: KVCacheManager) -> None:
        """Keep vLLM's block tables at hand."""
        super().bind_kv_cache_manager(kv_cache_manager)
        self._half.bind(kv_cache_manager)

    def on_new_request(self, request: Request) -> None:
        """A request has arrived."""
        self._half.half.add(request)

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """How many tokens can be loaded; held until they are loaded or not wanted."""
        found = self._half.half.find(request, num_computed_tokens)
        return found, bool(found)

    def update_state_after_alloc(
        self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int
    ) -> None:
        """A waiting request has blocks now."""
        self._half.half.admit(request, blocks.get_block_ids(), num_external_tokens)

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> KVConnectorMetadata:
        """What the workers do in this step."""
        return StepMetadata(self._half.step(scheduler_output))

    def update_connector_output(self, connector_output: KVConnectorOutput) -> None:
        """The workers have done a step."""
        self._half.hear(connector_output.kv_connector_worker_meta)

    def request_finished(
        self, request: Request, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        """A request is over; its blocks may be freed at once."""
        return self.request_finished_all_groups(request, (block_ids,))

    def request_finished_all_groups(
        self, request: Request, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        """A request is over; its blocks may be freed at once."""
        self._half.half.finish(request, block_ids)
        return False, None

    def has_pending_push_work(self) -> bool:
        """Whether steps must go on although no request runs."""
        return self._half.half.is_busy()

    def reset_cache(self) -> bool | None:
        """Empty the space; False if the daemon could not be reached, see `SchedulerHalf.reset`."""
        return self._half.half.reset()

    def take_events(self) -> Iterable[KVCacheEvent]:
        """What this engine stored, and what it knows to be gone."""
        return list(events_of(self._half.half.account.take_news()))

    def get_kv_connector_stats(self) -> KVConnectorStats | None:
        """Counts since the last call; only the scheduler's side has any."""
        if self._scheduler is None:
            return None
        return KvstowStats(self._scheduler.half.take_counts())

    @classmethod
    def build_kv_connector_stats(
        cls, data: dict[str, Any] | None = None
    ) -> KVConnectorStats | None:
        """Counts that have travelled to another process."""
        return KvstowStats(data or {})

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: VllmConfig,
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> KVConnectorPromMetrics | None:
        """The counts as Prometheus metrics."""
        return KvstowMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # The workers' side.

    @property
    def _rank(self) -> EngineWorker:
        assert self._worker is not None
        return self._worker

    def get_mem_pool_context(self) -> AbstractContextManager[Any] | None:
        """Have the KV cache allocated where the daemon can open it."""
        return self._rank.allocation()

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """The KV cache is allocated."""
        self._rank.register(kv_caches, get_tensor_model_parallel_rank())

    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        """Wait for the copies that read what this step overwrites."""
        assert isinstance(kv_connector_metadata, StepMetadata)
        self._rank.prepare(kv_connector_metadata.step)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Loads are made by the daemon; there is nothing to start."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """A request runs only after its load has ended."""

    def save_kv_layer(
        self,
        layer_name: str,
        kv_layer: torch.Tensor,
        attn_metadata: AttentionMetadata,
        **kwargs: Any,
    ) -> None:
        """Stores are made by the daemon, after the step."""

    def wait_for_save(self) -> None:
        """Stores are made by the daemon, after the step."""

    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:
        """The loads that have ended, as the scheduler's side has found."""
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, StepMetadata)
        return self._rank.results(metadata.step)

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Blocks without their bytes, if their ids are unique."""
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, StepMetadata)
        return self._rank.failed_blocks(metadata.step)

    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        """What the scheduler's side is told."""
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, StepMetadata)
        return ReportMetadata(self._rank.report(metadata.step))

    # Both.

    def shutdown(self) -> None:
        """The engine ends."""
        if self._scheduler is not None:
            self._scheduler.close()
        if self._worker is not None:
            self._worker.close()
