"""Facts that happened and that a session hears of on its stream, in the order of their sequence numbers."""

from dataclasses import dataclass
from typing import TypeAlias

from .types import BlockFailure, LeaseId, TransferId, TransferKind, TransferState


@dataclass(frozen=True, slots=True)
class TransferEnded:
    """The one terminal report of a transfer; its copies have ended and its slots are no longer its own."""

    transfer: TransferId
    kind: TransferKind
    state: TransferState
    failures: tuple[BlockFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class TransferOverdue:
    """The transfer is past its deadline; its copy still runs and its terminal report is still to come."""

    transfer: TransferId
    kind: TransferKind
    age_s: float


@dataclass(frozen=True, slots=True)
class SpaceReset:
    """The space has a new generation: forget what was believed stored."""

    generation: int


@dataclass(frozen=True, slots=True)
class ResetDrained:
    """The last transfer that the reset to this generation, or an earlier one, had abandoned has ended."""

    generation: int


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """A lease ran out; its blocks may be evicted."""

    lease: LeaseId
    request: str


@dataclass(frozen=True, slots=True)
class Draining:
    """The daemon is shutting down and takes no new work."""


@dataclass(frozen=True, slots=True)
class Resync:
    """Events other than terminal reports were lost because the reader was too slow: read the session's state anew."""

    lost_count: int


Event: TypeAlias = (
    TransferEnded | TransferOverdue | SpaceReset | ResetDrained | LeaseExpired | Draining | Resync
)
