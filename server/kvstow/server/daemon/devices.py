"""What the daemon knows of its devices: which there are, and which of them do not answer.

The main thread asks once a second, so that a device that hangs is noticed whether or not anybody uses it. Needs no lock:
what was found last is one attribute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from kvstow.server.core.requests import Gpu
from kvstow.server.device.base import Device, DeviceHealth
from kvstow.server.device.handles import HOST

_log = structlog.get_logger("kvstow.daemon")


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the daemon was started with, for clients to know.

    Args:
        copy_kernel: what copies between files and the host pool.
        cuda_off: why there is no CUDA; empty if there is.
        pinned: whether the host pool is page-locked when the daemon is ready.
    """

    copy_kernel: str = ""
    cuda_off: str = ""
    pinned: bool = False


NO_HARDWARE = Hardware()
"""Of which nothing is said."""


@dataclass(slots=True)
class Devices:
    """The devices, as the daemon sees them.

    Args:
        device: all of them.
        hardware: what they are made of.

    Attributes:
        unwell: those that did not answer when they were last asked.
    """

    device: Device
    hardware: Hardware
    unwell: frozenset[str] = field(default=frozenset())

    def look(self) -> Sequence[DeviceHealth]:
        """Ask how each fares, and log what has changed."""
        found = self.device.health()
        unwell = {health.device: health.trouble for health in found if not health.healthy}
        before, self.unwell = self.unwell, frozenset(unwell)
        for device in self.unwell - before:
            _log.error(
                "a device does not answer: sessions with memory there find nothing until it does",
                device=device,
                trouble=unwell[device],
            )
        for device in before - self.unwell:
            _log.warning("a device answers again", device=device)
        return found

    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs among them."""
        found = self.device.health()
        return tuple(
            Gpu(health.device, health.name, health.trouble)
            for health in found
            if health.device != HOST
        )
