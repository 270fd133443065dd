"""The same over the model of the driver, in one process: to try the script out where there is no GPU."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from kvstow.client import Client, CudaEvent, CudaMemory, Region
from kvstow.server.config import Config
from kvstow.server.daemon import Daemon
from kvstow.server.daemon.devices import Hardware
from kvstow.server.device.base import Device
from kvstow.server.device.handles import HOST
from kvstow.server.device.pool import HostPool
from kvstow.server.rpc.options import ServerOptions
from kvstow.server.rpc.server import RpcServer
from support.driver_model_world import Allocation, Bytes, EngineProcess, World
from support.machines import GpuMachine

from .checks import store_without_end
from .gpu import WORD_BYTES, Served
from .parts import PATIENT
from .plan import Plan

GPU_BYTES = 1 << 30
_VICTIM_PIECE = 4096


class ModelBuffer:
    """Blocks in one allocation of the model."""

    def __init__(self, gpu: "ModelGpu", piece_bytes: int, block_count: int) -> None:
        self._gpu = gpu
        self._allocation: Allocation = gpu.process.allocate(512 + piece_bytes * block_count)
        words = self._allocation.view[512:].view(np.int32)
        self._blocks = words.reshape(block_count, piece_bytes // WORD_BYTES)

    def region(self) -> Region:
        """See `Buffer.region`."""
        named = self._gpu.process.handle(self._allocation, 512)
        return Region(
            cuda_memory=CudaMemory(
                gpu_uuid=named.gpu_uuid,
                allocation=named.allocation,
                offset_bytes=named.offset_bytes,
                size_bytes=named.size_bytes,
            )
        )

    def fill(self, blocks: Sequence[int], seed: int) -> None:
        """See `Buffer.fill`."""

        def kernel() -> None:
            for at, block in enumerate(blocks):
                self._blocks[block] = seed + at

        self._gpu.process.launch(self._gpu.stream, kernel)

    def wrong(self, blocks: Sequence[int], seed: int) -> int:
        """See `Buffer.wrong`."""
        self._gpu.synchronize()
        return sum(
            bool((self._blocks[block] != seed + at).any()) for at, block in enumerate(blocks)
        )

    def snapshot(self, block: int) -> Callable[[int], bool]:
        """See `Buffer.snapshot`."""
        read: list[Bytes] = []
        self._gpu.process.launch(
            self._gpu.stream, lambda: read.append(self._blocks[block].copy().view(np.uint8))
        )

        def equals(seed: int) -> bool:
            self._gpu.synchronize()
            return bool((read[0].view(np.int32) == seed).all())

        return equals

    def free(self) -> None:
        """See `Buffer.free`."""
        self._gpu.process.free(self._allocation)


class ModelRing:
    """Fences of the model."""

    def __init__(self, gpu: "ModelGpu", count: int) -> None:
        self._gpu = gpu
        self._events = [gpu.process.event() for _ in range(count)]
        self.fences = [
            CudaEvent(gpu_uuid=named.gpu_uuid, event=named.event) for _, named in self._events
        ]

    def record(self, slot: int, stream: int = 0) -> None:
        """See `Ring`."""
        self._gpu.process.record(self._events[slot][0], self._gpu.stream)

    def close(self) -> None:
        """See `Ring`."""
        self._events.clear()


class ModelGpu:
    """One process on the model's GPU."""

    def __init__(self, world: World) -> None:
        self.facts = {"gpu": "none: this was a dry run over a model and says nothing about a GPU"}
        self.world = world
        self.process = EngineProcess(world)
        self.stream = self.process.stream()

    def buffer(self, piece_bytes: int, block_count: int) -> ModelBuffer:
        """See `Gpu.buffer`."""
        return ModelBuffer(self, piece_bytes, block_count)

    def ring(self, count: int) -> ModelRing:
        """See `Gpu.ring`."""
        return ModelRing(self, count)

    def sleep(self) -> None:
        """See `Gpu.sleep`."""
        self.process.launch(self.stream, lambda: None, steps=20)

    def synchronize(self) -> None:
        """See `Gpu.synchronize`."""
        self.process.synchronize(self.stream)

    def free_bytes(self) -> int:
        """See `Gpu.free_bytes`."""
        return GPU_BYTES - self.world.used_bytes(0)

    def plain_rates(self, size_bytes: int) -> dict[str, float]:
        """See `Gpu.plain_rates`: a number that means nothing."""
        return dict.fromkeys(("store", "load", "both"), 1e9)

    def swap_rate(self, piece_bytes: int, count: int) -> float:
        """See `Gpu.swap_rate`: a number that means nothing."""
        return 1e9

    def multiply(self, seconds: float) -> float:
        """See `Gpu.multiply`: a number that means nothing."""
        threading.Event().wait(seconds)
        return 1.0

    @contextmanager
    def victim(self, target: str) -> Iterator["ModelVictim"]:
        """See `Gpu.victim`."""
        gpu, storing = ModelGpu(self.world), threading.Event()
        with Client(target, PATIENT) as client:
            arguments = (client, gpu, _VICTIM_PIECE, storing.set)
            thread = threading.Thread(target=store_without_end, args=arguments, daemon=True)
            thread.start()
            if not storing.wait(60):
                raise RuntimeError("the engine that is to be killed did not come so far")
            yield ModelVictim(gpu, client)


class ModelVictim:
    """A thread that plays a process."""

    def __init__(self, gpu: ModelGpu, client: Client) -> None:
        self._gpu = gpu
        self._client = client

    def kill(self) -> None:
        """See `Victim.kill`: its memory goes, and the daemon sees that its connection does."""
        self._gpu.process.kill()
        self._client.close()


@contextmanager
def served_on_model(plan: Plan, *, kernel: bool = False) -> Iterator[tuple[Served, ModelGpu]]:
    """A daemon in this process, whose copies a kernel may make, and a GPU."""
    machine = GpuMachine(watchdog_s=30.0, kernel=kernel)
    config = Config(pool_size=plan.pool_bytes, extent_size=1 << 18, session_grace_s=30.0)
    pool = HostPool(config.pool_size)
    device = machine.device(pool, config, None)
    daemon = Daemon(config, device, hardware=Hardware("model", pinned=True))
    with TemporaryDirectory(prefix="kvstow-") as directory:
        socket = Path(directory, "s")
        server = RpcServer(
            daemon,
            ServerOptions(socket),
            observe=lambda *call: None,
            report_bug=daemon.health.report,
        )
        daemon.start()
        server.start()
        daemon.set_ready()
        try:
            yield Served(f"unix:{socket}", partial(_methods, device)), ModelGpu(machine.world)
            daemon.check()
        finally:
            daemon.close()
            server.stop(0)
            pool.close()
        machine.check()


def _methods(device: Device) -> list[str]:
    """How the copies of the GPUs are made."""
    return [found.copies for found in device.health() if found.device != HOST]
