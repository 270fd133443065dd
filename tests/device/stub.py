"""A CUDA driver in C that needs no GPU (`support/libcuda_stub.c`), and engine memory for it."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from device.rig import Bytes
from kvstow.server.device.cuda.driver import HANDLE_BYTES
from kvstow.server.device.handles import CudaHandle

SOURCE = Path(__file__).parents[1] / "support" / "libcuda_stub.c"

compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@functools.cache
def library(batches: str) -> str:
    """Compile the driver, once."""
    directory = tempfile.mkdtemp(prefix="kvstow-stub-")
    path = f"{directory}/libcuda-{batches}.so"
    define = [] if batches == "none" else [f"-DBATCHES={batches}"]
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *define]
    subprocess.run([*command, "-o", path, str(SOURCE)], check=True)
    return path


def count(batches: str, name: str) -> int:
    """How much of something there is in the driver."""
    return _variable(batches, name).value


def set_hanging(batches: str, hanging: bool) -> None:
    """Let nobody return from the initialization or from waiting for a stream, or everybody."""
    _variable(batches, "hanging").value = hanging


def refuse_batches(batches: str, code: int, made: int) -> None:
    """Refuse every batch with this error after so many of its copies were made; none with 0."""
    _variable(batches, "made_before").value = made
    _variable(batches, "refusal").value = code


def _variable(batches: str, name: str) -> ctypes.c_int64:
    return ctypes.c_int64.in_dll(ctypes.CDLL(library(batches)), f"stub_{name}")


class StubMemory:
    """Engine memory of the stub: its handle is its address and its size."""

    def __init__(self, gpu_uuid: str, size_bytes: int) -> None:
        self._view: Bytes = np.zeros(size_bytes, dtype=np.uint8)
        named = np.array([self._view.ctypes.data, size_bytes], dtype=np.uint64).tobytes()
        handle = named.ljust(HANDLE_BYTES, b"\0")
        self.handle = CudaHandle(gpu_uuid, handle, 0, size_bytes)

    def read(self) -> Bytes:
        return self._view.copy()

    def write(self, content: Bytes) -> None:
        self._view[:] = content
