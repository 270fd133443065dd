"""Where vLLM's KV cache lies, so that the daemon can open it.

vLLM allocates the whole KV cache of a rank with one `torch.zeros` of bytes, inside the context that
the connector gives it. On the CPU that one call is answered with shared memory; every other passes. On
a GPU it is left alone, and what it gave is exported.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kvstow.client import EngineMemory, Region
from kvstow.client.ipc import CannotExport, region
from kvstow.client.libcuda import CudaError, LibCuda

from .layout import Unsupported


class SharedAllocation(TorchFunctionMode):
    """Answers the allocation of the KV cache with shared memory.

    Args:
        size_bytes: of the KV cache.
        directory: where its file lies.

    Attributes:
        memory: what was given; None before.
    """

    def __init__(self, size_bytes: int, directory: Path) -> None:
        super().__init__()
        self._size_bytes = size_bytes
        self._directory = directory
        self.memory: EngineMemory | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.zeros and self._is_kv_cache(args, kwargs):
            self.memory = EngineMemory(self._size_bytes, self._directory)
            return torch.frombuffer(self.memory.buffer, dtype=torch.int8)
        return func(*args, **kwargs)

    @property
    def context(self) -> "SharedAllocation":
        """In which vLLM must allocate."""
        return self

    def locate(self, tensor: torch.Tensor) -> tuple[int, Region]:
        """Address and region of the allocation that a layer's tensor is a part of.

        Raises:
            Unsupported: vLLM has allocated it elsewhere.
        """
        if self.memory is None:
            raise Unsupported("vLLM has not allocated its KV cache where kvstow asked for it")
        start = torch.frombuffer(self.memory.buffer, dtype=torch.int8).data_ptr()
        return start, self.memory.region()

    def close(self) -> None:
        """The memory lives until the last copy and the last tensor have gone."""
        if self.memory is not None:
            self.memory.close()

    def _is_kv_cache(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return (
            self.memory is None
            and args == (self._size_bytes,)
            and kwargs.get("dtype") is torch.int8
            and torch.device(kwargs.get("device") or "cpu").type == "cpu"
        )


class DeviceAllocation:
    """Exports the KV cache from the GPU that vLLM has allocated it on.

    Args:
        size_bytes: of the KV cache.
        cuda: the driver, instead of this machine's.

    Attributes:
        context: vLLM needs none.
    """

    context = None

    def __init__(self, size_bytes: int, cuda: LibCuda | None = None) -> None:
        self._size_bytes = size_bytes
        self._cuda = cuda

    def locate(self, tensor: torch.Tensor) -> tuple[int, Region]:
        """Address and region of the allocation that a layer's tensor is a part of.

        Raises:
            Unsupported: no other process can be let at it.
        """
        start = int(tensor.untyped_storage().data_ptr())
        try:
            return start, region(tensor.get_device(), start, self._size_bytes, self._cuda)
        except (CannotExport, CudaError) as error:
            raise Unsupported(f"kvstowd cannot be let at the KV cache: {error}") from error

    def close(self) -> None:
        """The daemon has it mapped until the last copy has ended, and the driver keeps it so long."""
