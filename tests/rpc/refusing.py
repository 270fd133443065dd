"""A device that says of memory what it was told to say."""

from kvstow.server.device.base import DeviceError, Region
from kvstow.server.device.faults import FaultyDevice
from kvstow.server.device.handles import Handle


class RefusingDevice(FaultyDevice):
    """Passes everything on, until it has an error to raise.

    Attributes:
        error: what opening a region raises; None: the inner device decides.
    """

    error: DeviceError | None = None

    def open_region(self, handle: Handle, session: int) -> Region:
        if self.error is not None:
            raise self.error
        return super().open_region(handle, session)
