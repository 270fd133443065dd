"""The worker half in vLLM: where the KV cache lies, and how vLLM wants to hear of loads."""

from pathlib import Path

import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorTransferResults
from vllm.platforms import current_platform
from vllm.v1.kv_cache_interface import KVCacheConfig

from kvstow.client.engines.offload.options import Options
from kvstow.client.engines.offload.steps import Report, Step
from kvstow.client.engines.offload.worker import WorkerHalf
from kvstow.client.memory import DIRECTORY

from .layout import Unsupported, allocation_bytes, group_memory, shape_of
from .memory import DeviceAllocation, SharedAllocation


class EngineWorker:
    """The worker half of one rank, once its KV cache is there."""

    def __init__(self, config: VllmConfig, cache: KVCacheConfig, options: Options) -> None:
        shape_of(config, cache)
        self._cache = cache
        self._target = options.target
        self._names_requests = len(cache.kv_cache_groups) > 1
        self._allocation = _allocation(allocation_bytes(cache), options.memory_path)
        self._half: WorkerHalf | None = None

    def allocation(self) -> SharedAllocation | None:
        """In this context vLLM allocates its KV cache, if it matters."""
        return self._allocation.context

    def register(self, kv_caches: dict[str, torch.Tensor], rank: int) -> None:
        """The KV cache is there: attach it when there is a session.

        Raises:
            Unsupported: it is not where the configuration says, or cannot be exported.
        """
        start, region = self._allocation.locate(next(iter(kv_caches.values())))
        for tensor in self._cache.kv_cache_tensors:
            for layer, name in enumerate(tensor.layers):
                offset = kv_caches[name].data_ptr() - start
                if offset != tensor.offset + layer * tensor.layer_stride:
                    raise Unsupported(f"the KV cache of {name} is not where vLLM planned it")
        self._half = WorkerHalf(rank, [region], group_memory(self._cache), self._target)

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
        """The engine ends."""
        if self._half is not None:
            self._half.close()
        self._allocation.close()


def _allocation(size_bytes: int, memory_path: str) -> SharedAllocation | DeviceAllocation:
    if current_platform.is_cpu():
        return SharedAllocation(size_bytes, Path(memory_path or DIRECTORY))
    if current_platform.is_cuda():
        return DeviceAllocation(size_bytes)
    raise Unsupported("kvstow supports KV caches in host memory and on NVIDIA GPUs only")
