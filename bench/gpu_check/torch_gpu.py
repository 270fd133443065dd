"""The GPU by way of torch."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

import torch

from kvstow.client.ipc import FenceRing, region_of
from kvstow.v1 import cache_pb2

from .gpu import WORD_BYTES

SLEEP_CYCLES = 6_000_000
"""Some milliseconds: longer than a call and the copy of a block."""

VICTIM_S = 60.0
"""How long the engine that is to be killed may take to its first store."""

_MATRIX = 8192
_PRODUCTS = 20


class TorchBuffer:
    """Blocks in one tensor.

    Args:
        piece_bytes: of a block.
        block_count: how many.
        device: where; another one than a GPU only for tests.
    """

    def __init__(self, piece_bytes: int, block_count: int, device: str = "cuda") -> None:
        words = piece_bytes // WORD_BYTES
        self._device = device
        self._blocks = torch.zeros((block_count, words), dtype=torch.int32, device=device)
        self._pattern = torch.arange(words, dtype=torch.int32, device=device) * 1_000_003

    def region(self) -> cache_pb2.Region:
        """See `Buffer.region`."""
        return region_of(self._blocks)

    def fill(self, blocks: Sequence[int], seed: int) -> None:
        """See `Buffer.fill`."""
        self._blocks[self._chosen(blocks)] = self._content(len(blocks), seed)

    def wrong(self, blocks: Sequence[int], seed: int) -> int:
        """See `Buffer.wrong`."""
        differ = self._blocks[self._chosen(blocks)] != self._content(len(blocks), seed)
        return int(differ.any(dim=1).sum())

    def snapshot(self, block: int) -> Callable[[int], bool]:
        """See `Buffer.snapshot`."""
        copy = self._blocks[block].clone()
        return lambda seed: bool(torch.equal(copy, self._content(1, seed)[0]))

    def free(self) -> None:
        """See `Buffer.free`."""
        del self._blocks
        torch.cuda.empty_cache()

    def _content(self, count: int, seed: int) -> torch.Tensor:
        seeds = torch.arange(seed, seed + count, dtype=torch.int32, device=self._device)
        return self._pattern + seeds[:, None]

    def _chosen(self, blocks: Sequence[int]) -> slice | torch.Tensor:
        """How to index them. Those in a row need no list on the GPU, whose way there would wait for the stream."""
        if list(blocks) == list(range(blocks[0], blocks[0] + len(blocks))):
            return slice(blocks[0], blocks[0] + len(blocks))
        return torch.tensor(blocks, dtype=torch.int64, device=self._device)


class TorchGpu:
    """The first GPU that this process sees."""

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(0)
        self.facts = {
            "gpu": properties.name,
            "memory": f"{properties.total_memory >> 30} GiB",
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "cuda": str(torch.version.cuda),
            "driver": _driver(),
            "protobuf": version("protobuf"),
            "grpcio": version("grpcio"),
            "cores": str(os.cpu_count()),
        }

    def buffer(self, piece_bytes: int, block_count: int) -> TorchBuffer:
        """See `Gpu.buffer`."""
        return TorchBuffer(piece_bytes, block_count)

    def ring(self, count: int) -> FenceRing:
        """See `Gpu.ring`."""
        return FenceRing(0, count)

    def sleep(self) -> None:
        """See `Gpu.sleep`."""
        torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]

    def synchronize(self) -> None:
        """See `Gpu.synchronize`."""
        torch.cuda.synchronize()

    def free_bytes(self) -> int:
        """See `Gpu.free_bytes`."""
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])

    def plain_rates(self, size_bytes: int) -> dict[str, float]:
        """See `Gpu.plain_rates`."""
        host = [torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        gpu = [torch.empty(size_bytes, dtype=torch.uint8, device="cuda") for _ in range(2)]
        streams = [torch.cuda.Stream() for _ in range(2)]  # type: ignore[no-untyped-call]

        def store() -> None:
            with torch.cuda.stream(streams[0]):
                host[0].copy_(gpu[0], non_blocking=True)

        def load() -> None:
            with torch.cuda.stream(streams[1]):
                gpu[1].copy_(host[1], non_blocking=True)

        def both() -> None:
            store()
            load()

        rates = {"store": _rate(store, size_bytes), "load": _rate(load, size_bytes)}
        return {**rates, "both": _rate(both, 2 * size_bytes)}

    def swap_rate(self, piece_bytes: int, count: int) -> float:
        """See `Gpu.swap_rate`."""
        host = torch.empty((count, piece_bytes), dtype=torch.uint8, pin_memory=True)
        gpu = torch.empty((count, piece_bytes), dtype=torch.uint8, device="cuda")

        def swap() -> None:
            for block in range(count):
                host[block].copy_(gpu[block], non_blocking=True)

        return _rate(swap, count * piece_bytes)

    def multiply(self, seconds: float) -> float:
        """See `Gpu.multiply`."""
        left = torch.randn(_MATRIX, _MATRIX, dtype=torch.bfloat16, device="cuda")
        right = torch.randn_like(left)
        taken: list[float] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            for _ in range(_PRODUCTS):
                torch.mm(left, right)
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) / _PRODUCTS)
        steady = taken[len(taken) // 5 :]
        return sum(steady) / len(steady)

    @contextmanager
    def victim(self, target: str) -> Iterator["TorchVictim"]:
        """See `Gpu.victim`."""
        command = [sys.executable, "-m", "bench.gpu_check.victim", target]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                ready, _, _ = select.select([process.stdout], [], [], VICTIM_S)
                if not ready or process.stdout.readline().strip() != "storing":
                    raise RuntimeError("the engine that is to be killed did not come so far")
                yield TorchVictim(process)
            finally:
                process.kill()


class TorchVictim:
    """A process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def kill(self) -> None:
        """See `Victim.kill`."""
        self._process.kill()
        self._process.wait()


def _rate(work: Callable[[], None], size_bytes: int, rounds: int = 4) -> float:
    """Bytes a second of the fastest of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return size_bytes / best


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said.stdout.splitlines()[0].strip()
