"""How a rank's memory and fences are opened, and what is refused when they cannot be.

The memory of a rank is of one device, and so are its fences: one copy then is one device's.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

import structlog

from kvstow.server.core.errors import (
    CudaOff,
    DeviceBusy,
    FenceInvalid,
    GpuUnknown,
    Refusal,
    RegionInvalid,
)
from kvstow.server.core.spans import check_segments
from kvstow.server.core.types import SessionId
from kvstow.server.device.base import (
    CudaOffError,
    Device,
    DeviceBusyError,
    DeviceError,
    Fence,
    Region,
    UnknownGpuError,
)
from kvstow.server.device.handles import RankHandles

ItemT = TypeVar("ItemT")
_log = structlog.get_logger("kvstow.daemon")


@contextmanager
def opened_memory(
    device: Device, session: SessionId, memory: RankHandles
) -> Iterator[tuple[list[Region], list[Fence]]]:
    """Open a rank's memory and fences; all is closed again if the block raises. Without the daemon's lock.

    Raises:
        RegionInvalid: a region cannot be opened or is of another device, or blocks lie outside it or share bytes.
        FenceInvalid: a fence cannot be opened or is of another device.
        CudaOff, GpuUnknown, DeviceBusy: the device cannot be used, or not now.
    """
    _check(memory)
    regions: list[Region] = []
    fences: list[Fence] = []
    with ExitStack() as undo:
        for number, handle in enumerate(memory.handles):
            with _refusing(RegionInvalid, "region", number):
                regions.append(device.open_region(handle, session))
            undo.callback(_close, device.close_region, regions[-1])
        for number, event in enumerate(memory.fences):
            with _refusing(FenceInvalid, "fence", number):
                fences.append(device.open_fence(event, session))
            undo.callback(_close, device.close_fence, fences[-1])
        yield regions, fences
        undo.pop_all()


def _close(close: Callable[[ItemT], None], item: ItemT) -> None:
    """Close again what was opened for nothing; a device that is slow to do so does it all the same.

    If it fails that is only logged: whoever attaches is to hear why that was refused.
    """
    try:
        with suppress(DeviceBusyError):
            close(item)
    except DeviceError as error:
        _log.error("what was opened for nothing cannot be closed", reason=str(error))


def _check(memory: RankHandles) -> None:
    """See what is wrong with it before anything is opened."""
    sizes = [handle.size_bytes for handle in memory.handles]
    for group in memory.groups:
        check_segments(group.segments, sizes, group.block_count)
    device = memory.handles[0].device
    for number, handle in enumerate(memory.handles):
        if handle.device != device:
            raise RegionInvalid(
                f"region {number} is memory of {handle.device}, region 0 of {device}: all memory of a rank has to be"
                " of one device",
                region=number,
            )
    for number, event in enumerate(memory.fences):
        if event.device != device:
            raise FenceInvalid(
                f"fence {number} is of {event.device}, the memory of the rank of {device}",
                fence=number,
            )


@contextmanager
def _refusing(invalid: type[Refusal], kind: str, number: int) -> Iterator[None]:
    """Make a refusal of what a device says."""
    facts = {kind: number}
    try:
        yield
    except CudaOffError as error:
        raise CudaOff(f"{kind} {number}: {error}", **facts) from error
    except UnknownGpuError as error:
        visible = " ".join(error.visible)
        raise GpuUnknown(
            f"{kind} {number}: {error}", gpu=error.gpu, visible=visible, **facts
        ) from error
    except DeviceBusyError as error:
        raise DeviceBusy(f"{kind} {number}: {error}", **facts) from error
    except DeviceError as error:
        raise invalid(f"{kind} {number}: {error}", **facts) from error
