"""What the check asks of a GPU, as an engine has it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from kvstow.v1 import cache_pb2

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Served:
    """A daemon.

    Args:
        target: where it is reached.
        methods: says how the copies of the GPUs in use are made.
    """

    target: str
    methods: Callable[[], list[str]]


class Ring(Protocol):
    """Fences; see `kvstow.client.ipc.FenceRing`."""

    fences: list[cache_pb2.CudaEvent]

    def record(self, slot: int, stream: int = 0) -> None: ...

    def close(self) -> None: ...


class Buffer(Protocol):
    """Memory of blocks, filled and read by kernels on the engine's stream."""

    def region(self) -> cache_pb2.Region:
        """As an attach names it."""
        ...

    def fill(self, blocks: Sequence[int], seed: int) -> None:
        """Queue a kernel that gives the i-th of these blocks the content of seed + i."""
        ...

    def wrong(self, blocks: Sequence[int], seed: int) -> int:
        """How many of these blocks have another content than `fill` gives them; waits."""
        ...

    def snapshot(self, block: int) -> Callable[[int], bool]:
        """Queue a kernel that reads a block; what is returned tells, and waits for it, whether it read this seed's."""
        ...

    def free(self) -> None:
        """Give the memory back to the GPU."""
        ...


class Victim(Protocol):
    """An engine in a process of its own that stores without end."""

    def kill(self) -> None:
        """Take it away in mid-copy."""
        ...


class Gpu(Protocol):
    """The GPU.

    Attributes:
        facts: about it and the software, for the report.
    """

    facts: dict[str, str]

    def buffer(self, piece_bytes: int, block_count: int) -> Buffer: ...

    def ring(self, count: int) -> Ring: ...

    def sleep(self) -> None:
        """Queue a kernel that takes long enough for a copy to overtake it, were it not for the fence."""
        ...

    def synchronize(self) -> None: ...

    def free_bytes(self) -> int:
        """Memory of the GPU that nobody has."""
        ...

    def plain_rates(self, size_bytes: int) -> dict[str, float]:
        """Bytes a second of one large copy of page-locked memory: `store`, `load`, and `both` added up."""
        ...

    def swap_rate(self, piece_bytes: int, count: int) -> float:
        """Bytes a second of blocks copied one by one to page-locked memory, as engines do by themselves."""
        ...

    def multiply(self, seconds: float) -> float:
        """Multiply matrices for so long; milliseconds that the GPU took for each product, by its own clock."""
        ...

    def victim(self, target: str) -> AbstractContextManager[Victim]:
        """An engine that stores without end, when it is at it."""
        ...
