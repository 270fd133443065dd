"""Counts of the scheduler half as vLLM's statistics and Prometheus metrics."""

from collections import Counter
from typing import Any

from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)
from vllm.v1.metrics.utils import create_metric_per_engine

COUNTERS = {
    "lookups": "Lookups of a prefix at kvstow.",
    "hit_keys": "Keys of those lookups whose blocks were stored.",
    "missed_keys": "Keys of those lookups whose blocks were not stored, or not answered in time.",
    "cut_lookups": "Prompts of which only the beginning was looked up: too many keys for 8 lookups.",
    "stores": "Transfers from the engine to kvstow.",
    "stored_blocks": "Blocks that this engine stored.",
    "loads": "Transfers from kvstow to the engine.",
    "loaded_blocks": "Blocks that this engine loaded.",
    "failed_loads": "Requests that compute what could not be loaded.",
    "fences": "Stores that a step had to wait for, because it overwrites what they read.",
    "failures": "Calls to kvstow that were refused, not answered in time, or not made.",
    "reopened": "Times that the session was lost and opened again.",
}


class KvstowStats(KVConnectorStats):
    """By how much each count has risen."""

    def reset(self) -> None:
        """Nothing has risen."""
        self.data.clear()

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        """Both together."""
        return KvstowStats(dict(Counter(self.data) + Counter(other.data)))

    def reduce(self) -> dict[str, int | float]:
        """For vLLM's log."""
        return dict(self.data)

    def is_empty(self) -> bool:
        """Whether nothing has risen."""
        return not self.data


class KvstowMetrics(KVConnectorPromMetrics):
    """One counter for each count, `vllm:kvstow_...`."""

    def __init__(
        self,
        vllm_config: VllmConfig,
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters = {
            name: create_metric_per_engine(
                self._counter_cls(
                    name=f"vllm:kvstow_{name}", documentation=documentation, labelnames=labelnames
                ),
                per_engine_labelvalues,
            )
            for name, documentation in COUNTERS.items()
        }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Add what has risen."""
        for name, count in transfer_stats_data.items():
            self._counters[name][engine_idx].inc(count)
