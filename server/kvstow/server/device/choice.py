"""Which devices a daemon has: host memory always, GPUs if it is to use them and can."""

import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Literal

from .base import Device, DeviceError
from .cuda.beats import Beat
from .cuda.control import Control
from .cuda.device import CudaDevice
from .cuda.libcuda import LIBRARY, LibCuda
from .devices import Devices, NoCuda
from .host import HostDevice
from .pool import HostPool


@dataclass(frozen=True, slots=True)
class Choice:
    """What was found.

    Args:
        device: all devices as one.
        copy_kernel: what copies between files and the host pool.
        cuda: the GPUs; None if there are none.
        cuda_off: why there are none; empty if there are.
        pinned: whether the host pool is page-locked before the first copy.
    """

    device: Device
    copy_kernel: str
    cuda: CudaDevice | None
    cuda_off: str
    pinned: bool


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a person has set.

    Args:
        copy_threads: threads that copy between files and the host pool.
        piece_bytes: largest piece that they copy at once.
        cuda: use the GPUs if there are any, insist on it, or do not.
        pinned: whether the host pool is page-locked for them.
        watchdog_s: how long a call of the driver may take before its GPU counts as stuck.
        library: the driver.
    """

    copy_threads: int
    piece_bytes: int
    cuda: Literal["auto", "on", "off"]
    pinned: bool
    watchdog_s: float
    library: str = LIBRARY


def choose_devices(pool: HostPool, wishes: Wishes) -> Choice:
    """Make the devices; no GPU has a context yet.

    Args:
        pool: the host pool.
        wishes: what there is to be.

    Raises:
        DeviceError: CUDA is insisted on and cannot be used, or the copy kernel cannot; says why and what to do.
    """
    cuda, cuda_off = _find_cuda(pool, wishes)
    host = HostDevice(pool, wishes.copy_threads, wishes.piece_bytes)
    device = Devices(host, NoCuda(cuda_off) if cuda is None else cuda)
    pinned = wishes.pinned and cuda is not None
    return Choice(device, host.kernel_name, cuda, cuda_off, pinned)


def threads_in_a_driver() -> list[str]:
    """Names of the threads of GPUs that still run. Once the devices are closed, a call of the driver keeps these."""
    names = [thread.name for thread in threading.enumerate()]
    return sorted(name for name in names if name.startswith("gpu-"))


def _find_cuda(pool: HostPool, wishes: Wishes) -> tuple[CudaDevice | None, str]:
    if wishes.cuda == "off":
        return None, "the setting cuda is off"
    try:
        driver = _load(wishes.library, wishes.watchdog_s)
    except DeviceError as error:
        if wishes.cuda == "on":
            raise DeviceError(
                f"{error}; give the daemon the GPUs and their driver (in a container, with the NVIDIA runtime), or set"
                " cuda to auto or off"
            ) from error
        return None, str(error)
    return CudaDevice(driver, pool, pinned=wishes.pinned, watchdog_s=wishes.watchdog_s), ""


def _load(library: str, limit_s: float) -> LibCuda:
    """Load the driver on a thread of its own: with a GPU that is broken its first call may never return.

    Raises:
        DeviceError: it cannot be loaded, or not within `limit_s` seconds.
    """
    loader = Control("gpu-loader", Beat(time.monotonic))
    try:
        return loader.call("initialize the CUDA driver", partial(LibCuda, library), limit_s)
    finally:
        loader.close(0.0)  # if it hangs, it ends with the process
