"""A KV cache on a GPU, as far as that can be shown without one: the driver is a double, the tensors are addresses."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from client.test_ipc import BASE, BASE_BYTES, GPUS, VIRTUAL, Driver, driver, library
from kvstow.client import ipc
from kvstow.client.engines.offload import worker as worker_half
from kvstow.client.engines.offload.options import Options
from kvstow.client.engines.vllm import layout, serving
from kvstow.client.engines.vllm.layout import Unsupported, allocation_bytes
from kvstow.client.engines.vllm.serving import EngineWorker
from vllm_engine.engine import OpenEngine, connector, started_engine
from vllm_engine.tiny import tiny_llama

__all__ = ["driver", "library"]


class Gpu:
    """What vLLM says of a platform with GPUs."""

    device_type = "cuda"

    def is_cpu(self) -> bool:
        return False

    def is_cuda(self) -> bool:
        return True


@dataclass(frozen=True)
class OnGpu:
    """A tensor of a layer, and the storage that it is a part of."""

    address: int
    storage: int = BASE

    def data_ptr(self) -> int:
        return self.address

    def get_device(self) -> int:
        return 0

    def untyped_storage(self) -> "OnGpu":
        return OnGpu(self.storage)


Caches = Callable[[int], dict[str, Any]]


@pytest.fixture(scope="module")
def configured() -> Iterator[OpenEngine]:
    """An engine whose configuration is taken for that of one on a GPU."""
    with started_engine(
        tiny_llama(), connector("unix:/nowhere"), num_gpu_blocks_override=16, max_model_len=256
    ) as engine:
        yield engine


@pytest.fixture
def worker(configured: OpenEngine, driver: Driver) -> Iterator[EngineWorker]:
    """The worker half of its rank."""
    config, cache = configured.scheduler.vllm_config, configured.scheduler.kv_cache_config
    with (
        patch.object(serving, "current_platform", Gpu()),
        patch.object(layout, "current_platform", Gpu()),
        patch.object(ipc, "driver", lambda: driver.cuda),
    ):
        made = EngineWorker(config, cache, Options(target="unix:/nowhere"))
        yield made
        made.close()


@pytest.fixture
def caches(configured: OpenEngine) -> Caches:
    """The layers of a cache that begins at an address."""
    return lambda start: {
        name: OnGpu(start + tensor.offset + number * tensor.layer_stride, start)
        for tensor in configured.scheduler.kv_cache_config.kv_cache_tensors
        for number, name in enumerate(tensor.layers)
    }


def test_the_allocation_of_all_layers_is_exported(
    configured: OpenEngine, worker: EngineWorker, caches: Caches
) -> None:
    assert worker.allocation() is None, "vLLM allocates as it likes"
    size_bytes = allocation_bytes(configured.scheduler.kv_cache_config)
    start = BASE + BASE_BYTES - size_bytes
    with patch.object(worker_half, "RemoteRank") as rank:
        worker.register(caches(start), 3)
    number, (region,), groups, target = rank.call_args.args
    assert (number, target) == (3, "unix:/nowhere")
    assert region.cuda_memory.gpu_uuid == GPUS[0]
    assert region.cuda_memory.offset_bytes == BASE_BYTES - size_bytes
    assert region.cuda_memory.size_bytes == size_bytes
    assert groups == layout.group_memory(configured.scheduler.kv_cache_config)


def test_memory_that_cannot_be_exported_stops_the_engine(
    worker: EngineWorker, caches: Caches
) -> None:
    with pytest.raises(Unsupported, match="expandable_segments"):
        worker.register(caches(VIRTUAL), 0)


def test_layers_that_are_not_where_they_were_planned_stop_the_engine(
    worker: EngineWorker, caches: Caches
) -> None:
    moved: dict[str, Any] = {name: OnGpu(each.address + 64) for name, each in caches(BASE).items()}
    with pytest.raises(Unsupported, match="is not where vLLM planned it"):
        worker.register(moved, 0)


def test_sleep_mode_is_refused(configured: OpenEngine, worker: EngineWorker) -> None:
    config = configured.scheduler.vllm_config
    with (
        patch.object(config.model_config, "enable_sleep_mode", True),
        pytest.raises(Unsupported, match="sleep mode"),
    ):
        layout.check_supported(config)


def test_engines_on_gpus_share_nothing_with_engines_on_cpus(configured: OpenEngine) -> None:
    config, cache = configured.scheduler.vllm_config, configured.scheduler.kv_cache_config
    here = layout.identity_of(config, cache, Options())
    with patch.object(layout, "current_platform", Gpu()):
        there = layout.identity_of(config, cache, Options())
    assert here != there
