"""The daemon: the shell around the pure ledger. `Daemon` is what other packages use."""

from .health import Health, Status
from .meters import NO_METERS, Meters
from .shell import Daemon

__all__ = ["NO_METERS", "Daemon", "Health", "Meters", "Status"]
