"""How the parts of the daemon are put together from its settings."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kvstow.server.config import Config
from kvstow.server.core import books, requests
from kvstow.server.core.admission import Admission
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.policy import make_policy
from kvstow.server.core.types import SessionId
from kvstow.server.device.base import CLOSE_S, Device

from .attachments import Attachments
from .closing import Closing
from .devices import Devices, Hardware
from .flights import Flights
from .guard import Guard
from .health import Health
from .meters import Meters
from .misses import LIMIT, Misses
from .processes import Processes
from .sessions import Sessions
from .timers import Timer
from .upkeep import Upkeep
from .zeroing import Zero, Zeroing, leave_padding, zero_padding

SIGHTINGS = 1 << 16
"""Blocks whose offers are counted when not every first offer is stored."""

LEAST_CLOSE_S = 1.0
"""Devices that do not hang close in less. They are given this long even if running copies are given less to end."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything behind the daemon's methods."""

    health: Health
    guard: Guard
    devices: Devices
    sessions: Sessions
    flights: Flights
    misses: Misses
    timer: Timer
    upkeep: Upkeep
    closer: Timer
    closing: Closing
    zeroer: Timer
    zeroing: Zeroing | None

    def start(self) -> None:
        """Start the threads."""
        if self.zeroing is not None:
            self.zeroer.start(self.zeroing.work)
        self.timer.start(self.upkeep.work)
        self.closer.start(self.closing.work)
        self.sessions.processes.start()

    def stop(self, grace_s: float) -> None:
        """Stop the threads and close the devices; those that hang are given `grace_s` in all, within `LEAST_CLOSE_S` and `CLOSE_S`."""
        limit_s = min(max(grace_s, LEAST_CLOSE_S), CLOSE_S)
        until = time.monotonic() + limit_s
        self.timer.stop()
        self.closer.stop(limit_s)
        self.zeroer.stop()
        self.sessions.processes.stop()
        self.devices.device.close(max(until - time.monotonic(), 0.0))


def assemble(
    config: Config,
    device: Device,
    hardware: Hardware,
    clock: Callable[[], float],
    meters: Meters,
    process_died: Callable[[SessionId], None],
    zero: Zero,
) -> Parts:
    """Make the parts; no thread runs yet.

    Args:
        config: the settings.
        device: makes the copies.
        hardware: what clients are told of the devices.
        clock: seconds of a clock that never goes back.
        meters: told of copies that ended.
        process_died: called with a session one of whose processes has died.
        zero: zeroes pieces of the host pool.
    """
    health = Health()
    timer, closer, zeroer = (Timer(clock, name) for name in ("timer", "closer", "zeroing"))
    attachments = Attachments(device, closer.wake)
    sessions = Sessions(attachments, Processes(process_died))
    guard = Guard(
        _ledger(config),
        wake_readers=sessions.wake_readers,
        wake_timer=timer.wake,
        report_bug=health.report,
        wake_zeroing=zeroer.wake if config.zero_freed else None,
    )
    pad = partial(zero_padding, zero, config.extent_bytes) if config.zero_freed else leave_padding
    flights = Flights(guard, device, config.extent_bytes, clock, health, meters, closer.wake, pad)
    return Parts(
        health,
        guard,
        Devices(device, hardware),
        sessions,
        flights,
        Misses(min(LIMIT, config.max_keys)),  # as many as can be explained at once
        timer,
        Upkeep(guard, sessions, flights, clock),
        closer,
        Closing(guard, attachments, health, clock),
        zeroer,
        Zeroing(guard, zero) if config.zero_freed else None,
    )


def limits(config: Config) -> requests.Limits:
    """What clients are told that they may ask for."""
    return requests.Limits(
        max_keys_per_call=config.max_keys,
        max_lease_ttl_s=config.max_lease_s,
        max_deadline_s=config.max_deadline_s,
        max_transfers_per_session=config.max_transfers,
        extent_bytes=config.extent_bytes,
        pool_bytes=config.pool_size,
    )


def _ledger(config: Config) -> Ledger:
    return Ledger(
        config.pool_size,
        config.extent_bytes,
        make_policy=partial(make_policy, config.policy),
        admission=Admission(config.admission, SIGHTINGS),
        limits=books.Limits(
            max_keys=config.max_keys,
            max_transfers=config.max_transfers,
            max_leases=config.max_leases,
            max_sessions=config.max_sessions,
            max_spaces=config.max_spaces,
            max_tenant_spaces=config.max_tenant_spaces,
            max_events=config.max_events,
            max_lease_s=config.max_lease_s,
            max_deadline_s=config.max_deadline_s,
            grace_s=config.session_grace_s,
        ),
        session_base=secrets.randbelow(1 << 40),
        zeroes=config.zero_freed.covers,
    )
