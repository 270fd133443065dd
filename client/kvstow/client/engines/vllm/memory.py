"""Has vLLM allocate its KV cache in memory that the daemon can open.

vLLM allocates the whole KV cache of a rank with one `torch.zeros` of bytes, inside the context that
the connector gives it. On the CPU that one call is answered with shared memory; every other passes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kvstow.client import EngineMemory


class SharedAllocation(TorchFunctionMode):
    """Answers the allocation of the KV cache with shared memory.

    Args:
        size_bytes: of the KV cache.

    Attributes:
        memory: what was given; None before.
    """

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self._size_bytes = size_bytes
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
            self.memory = EngineMemory(self._size_bytes)
            return torch.frombuffer(self.memory.buffer, dtype=torch.int8)
        return func(*args, **kwargs)

    def _is_kv_cache(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return (
            self.memory is None
            and args == (self._size_bytes,)
            and kwargs.get("dtype") is torch.int8
            and torch.device(kwargs.get("device") or "cpu").type == "cpu"
        )
