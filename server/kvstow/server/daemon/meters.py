"""What the daemon tells its metrics as it happens, because no snapshot shows it afterwards."""

from typing import Protocol

from kvstow.server.device.base import Direction


class Meters(Protocol):
    """Takes observations; called without the daemon's lock, from any thread, and must neither block nor raise."""

    def copied(self, direction: Direction, size_bytes: int, seconds: float) -> None:
        """One rank's copy has ended.

        Args:
            direction: store or load.
            size_bytes: bytes that were copied.
            seconds: from its start to its end.
        """
        ...


class _NoMeters:
    def copied(self, direction: Direction, size_bytes: int, seconds: float) -> None:
        pass


NO_METERS: Meters = _NoMeters()
"""Throws observations away."""
