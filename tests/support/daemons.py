"""A daemon in this process, with a wrapper around its devices that holds, fails and delays copies."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvstow.server.config import Config
from kvstow.server.core.types import Layout, TransferId
from kvstow.server.daemon import Daemon
from kvstow.server.daemon.devices import Hardware
from kvstow.server.daemon.zeroing import Zero
from kvstow.server.device.faults import FaultRule, FaultyDevice, Hold
from kvstow.server.device.kernel import CopyKernel
from kvstow.server.device.pool import HostPool

from .checking import checked_books
from .clock import ManualClock
from .engine import ONE_RANK
from .machines import HostMachine, Machine, Place
from .memory import shared_directory
from .waiting import wait_for

_PLAIN = Hardware(copy_kernel="test")


@dataclass(frozen=True)
class Rig:
    """A running daemon and what drives it.

    Args:
        daemon: the daemon.
        faults: the device it copies with.
        clock: its clock.
        directory: on tmpfs, for engine memory.
        machine: what it runs on.
        pool: the host pool.
    """

    daemon: Daemon
    faults: FaultyDevice
    clock: ManualClock
    directory: Path
    machine: Machine
    pool: HostPool

    @property
    def place(self) -> Place:
        """Where an engine that comes now has its memory."""
        return self.machine.place(self.directory)

    def hold(self, **match: object) -> Callable[[], None]:
        """Hold the copies that match from now on; returns what lets them go and ends the rule."""
        number = self.faults.add(FaultRule(Hold(), **match))  # type: ignore[arg-type]
        return lambda: (self.faults.remove(number), None)[1]

    def wait_held(self, count: int) -> None:
        """Wait until so many copies are held."""
        wait_for(lambda: len(self.faults.held()) == count, f"{count} held copies")

    def landed(self, *transfers: TransferId) -> None:
        """Wait until the copies of transfers, whose session may be gone, have ended."""
        wait_for(
            lambda: not {found.id for found in self.daemon.snapshot().transfers} & set(transfers),
            f"the end of transfers {transfers}",
        )


@contextmanager
def running_daemon(
    *,
    blocks: int = 8,
    layout: Layout = ONE_RANK,
    ready: bool = True,
    bugs: int = 0,
    clock: Callable[[], float] | None = None,
    kernel: CopyKernel | None = None,
    machine: Machine | None = None,
    zero: Zero | None = None,
    checked: bool = True,
    **settings: object,
) -> Iterator[Rig]:
    """A daemon that is ready, and whose books are verified by whoever leaves its lock.

    Args:
        blocks: the pool holds so many blocks of the first group of `layout`, one in each extent.
        layout: see there.
        ready: whether it takes work already.
        bugs: errors of the daemon's own that the test provokes.
        clock: the daemon's clock, instead of one that stands still.
        kernel: what moves bytes between files and the pool, instead of the best that is installed.
        machine: what it runs on, instead of one without GPUs.
        zero: zeroes pieces of the pool, instead of the pool itself.
        checked: whether the books are verified before the end, which takes time with many transfers or leases.
        settings: of `Config`, instead of the defaults.
    """
    slot_bytes = layout.groups[0].slot_bytes(layout.world_size)
    sizes = {"pool_size": blocks * slot_bytes, "extent_size": slot_bytes}
    config = Config(**{**sizes, "copy_threads": 2, **settings})  # type: ignore[arg-type]
    manual = ManualClock()
    pool = HostPool(config.pool_size)
    machine = machine or HostMachine()
    faults = FaultyDevice(machine.device(pool, config, kernel))
    with checked_books(checked):
        daemon = Daemon(
            config, faults, hardware=_PLAIN, clock=clock or manual, zero=zero or pool.zero
        )
    manual.on_advance = daemon.look_again
    machine.watch(daemon)
    daemon.start()
    if ready:
        daemon.set_ready()
    try:
        with shared_directory() as directory:
            yield Rig(daemon, faults, manual, directory, machine, pool)
        daemon.check()
    finally:
        daemon.close()
        pool.close()
    machine.check()
    daemon.check()
    assert daemon.health.bug_count == bugs
