"""A process that owns memory of a real GPU, as an engine does, and does with it as it is told."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from device.rig import Bytes
from kvstow.client.ipc import region_of
from kvstow.server.device.handles import CudaHandle

OFFSET_BYTES = 512


class Exporter:
    """The process.

    Args:
        connection: to it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ask(self, *question: Any) -> Any:
        """Have it do something; its answer."""
        self._connection.send(question)
        return self._connection.recv()

    def allocate(self, size_bytes: int) -> "ExportedMemory":
        """Memory somewhere in an allocation of torch."""
        return ExportedMemory(self, size_bytes)


class ExportedMemory:
    """Engine memory on a GPU.

    Args:
        exporter: whose it is.
        size_bytes: how much.
    """

    def __init__(self, exporter: Exporter, size_bytes: int) -> None:
        self._exporter = exporter
        self._number, handle = exporter.ask("allocate", size_bytes)
        self.handle = CudaHandle(*handle)

    def read(self) -> Bytes:
        return np.frombuffer(self._exporter.ask("read", self._number), dtype=np.uint8)

    def write(self, content: Bytes) -> None:
        self._exporter.ask("write", self._number, content.tobytes())


@contextmanager
def running_exporter() -> Iterator[Exporter]:
    """Start it, and end it afterwards."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield Exporter(ours)
    finally:
        ours.send(None)
        process.join()


def serve(connection: Connection) -> None:
    """What the process does."""
    tensors: list[torch.Tensor] = []
    while (question := connection.recv()) is not None:
        connection.send(_answer(question, tensors))


def _answer(question: tuple[Any, ...], tensors: list[torch.Tensor]) -> Any:
    match question:
        case ("allocate", int(size_bytes)):
            whole = torch.zeros(OFFSET_BYTES + size_bytes, dtype=torch.uint8, device="cuda")
            tensors.append(whole[OFFSET_BYTES:])
            torch.cuda.synchronize()
            memory = region_of(tensors[-1]).cuda_memory
            named = (memory.gpu_uuid, memory.allocation, memory.offset_bytes, memory.size_bytes)
            return len(tensors) - 1, named
        case ("read", int(number)):
            return tensors[number].cpu().numpy().tobytes()
        case ("write", int(number), bytes(content)):
            tensors[number].copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
            torch.cuda.synchronize()
            return None
    raise ValueError(f"nobody knows what to do with {question[0]}")
