"""Which fences of the ranks' rings are free.

Every rank records the fence of the same number for one transfer, so one process, the one that sends the transfers, says
which. The rings themselves are the ranks' (`ipc.FenceRing`).
"""

import threading

from .transfer import Transfer


class FenceSlots:
    """The numbers of the fences that no transfer needs. Any thread may call any method.

    Args:
        count: fences of each rank's ring.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = list(range(count))

    def take(self) -> int | None:
        """A fence for one transfer; None if all are needed: then wait for the device work itself, and name none."""
        with self._lock:
            return self._free.pop(0) if self._free else None

    def free_after(self, slot: int, transfer: Transfer) -> None:
        """Give a fence back when the transfer that names it has ended, at once if it was never sent."""
        transfer.add_done_callback(lambda _: self.free(slot))

    def free(self, slot: int) -> None:
        """Give a fence back that no transfer names."""
        with self._lock:
            self._free.append(slot)
