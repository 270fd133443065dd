"""Which devices a daemon has: host memory always, GPUs if it is to use them and can."""

import os
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog

from .base import Device, DeviceBusyError, DeviceError
from .cuda.beats import Beat
from .cuda.control import Control
from .cuda.device import CudaDevice
from .cuda.libcuda import LIBRARY, LibCuda
from .devices import Devices, NoCuda
from .host import HostDevice
from .pool import HostPool

_log = structlog.get_logger("kvstow.device")


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
        kernel: whether a kernel makes the copies, and not the copy engines.
        library: the driver.
    """

    copy_threads: int
    piece_bytes: int
    cuda: Literal["auto", "on", "off"]
    pinned: bool
    watchdog_s: float
    kernel: bool = False
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


def leave_drivers_that_hang(code: int) -> None:
    """End the process with this code if threads of GPUs still run: once devices are closed, calls of a driver keep these.

    The driver's own clean-up at the usual end of a process might wait for them.
    """
    names = [thread.name for thread in threading.enumerate()]
    if hanging := sorted(name for name in names if name.startswith("gpu-")):
        _log.warning("leaving with calls of the CUDA driver that do not return", threads=hanging)
        os._exit(code)


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
    device = CudaDevice(
        driver, pool, pinned=wishes.pinned, watchdog_s=wishes.watchdog_s, kernel=wishes.kernel
    )
    return device, ""


def _load(library: str, limit_s: float) -> LibCuda:
    """Load the driver on a thread of its own: with a GPU that is broken its first call may never return.

    Raises:
        DeviceError: it cannot be loaded, or not within `limit_s` seconds.
    """
    loader = Control("gpu-loader", Beat(time.monotonic))
    longest_s = limit_s
    try:
        return loader.call("initialize the CUDA driver", partial(LibCuda, library), limit_s)
    except DeviceBusyError:
        longest_s = 0.0  # it hangs, and ends with the process
        raise
    finally:
        loader.close(longest_s)
