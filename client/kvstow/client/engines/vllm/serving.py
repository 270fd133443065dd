"""The worker half in vLLM: where the KV cache lies, and how vLLM wants to hear of loads."""

import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorTransferResults
from vllm.platforms import current_platform
from vllm.v1.kv_cache_interface import KVCacheConfig

from kvstow.client.engines.offload.options import Options
from kvstow.client.engines.offload.steps import Report, Step
from kvstow.client.engines.offload.worker import WorkerHalf

from .layout import Unsupported, allocation_bytes, group_memory, shape_of
from .memory import SharedAllocation


class EngineWorker:
    """The worker half of one rank, once its KV cache is there."""

    def __init__(self, config: VllmConfig, cache: KVCacheConfig, options: Options) -> None:
        if not current_platform.is_cpu():
            raise Unsupported("kvstow does not support KV caches in device memory yet")
        shape_of(config, cache)
        self._cache = cache
        self._target = options.target
        self._names_requests = len(cache.kv_cache_groups) > 1
        self._allocation = SharedAllocation(allocation_bytes(cache))
        self._half: WorkerHalf | None = None

    def allocation(self) -> SharedAllocation:
        """In this context vLLM allocates its KV cache."""
        return self._allocation

    def register(self, kv_caches: dict[str, torch.Tensor], rank: int) -> None:
        """The KV cache is there: attach it when there is a session.

        Raises:
            Unsupported: it is not where the configuration says.
        """
        memory = self._allocation.memory
        if memory is None:
            raise Unsupported("vLLM has not allocated its KV cache where kvstow asked for it")
        start = torch.frombuffer(memory.buffer, dtype=torch.int8).data_ptr()
        for tensor in self._cache.kv_cache_tensors:
            for layer, name in enumerate(tensor.layers):
                offset = kv_caches[name].data_ptr() - start
                if offset != tensor.offset + layer * tensor.layer_stride:
                    raise Unsupported(f"the KV cache of {name} is not where vLLM planned it")
        self._half = WorkerHalf(rank, [memory.region()], group_memory(self._cache), self._target)

    def prepare(self, step: Step) -> None:
        """Before a step."""
        if self._half is not None:
            self._half.prepare(step)

    def results(self, step: Step) -> KVConnectorTransferResults:
        """The loads that have ended; with several groups, also the requests of those that failed."""
        failed = {ended.request_id for ended in step.ended if ended.failed_blocks}
        return KVConnectorTransferResults(
            finished_recving={ended.request_id for ended in step.ended},
            failed_recving=failed if self._names_requests else set(),
        )

    def failed_blocks(self, step: Step) -> set[int]:
        """With one group: blocks whose load failed."""
        if self._names_requests:
            return set()
        return {block for ended in step.ended for block in ended.failed_blocks}

    def report(self, step: Step) -> Report:
        """What the scheduler's side is told."""
        return Report(step.number, {}) if self._half is None else self._half.report(step)

    def close(self) -> None:
        """The engine ends. The memory lives until the last copy and the last tensor have."""
        if self._half is not None:
            self._half.close()
        if self._allocation.memory is not None:
            self._allocation.memory.close()
