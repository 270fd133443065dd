"""The daemon's life, and that of its sessions: states, drain, memory, streams, and how each ends.

Decided here: in which state the daemon takes which requests, and in which order things are ended. Not decided here: what
an end means for blocks (the ledger).
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version

import structlog

from kvstow.server.config import Config
from kvstow.server.core.errors import BooksError, NoSuchSession, NotStarted, ShuttingDown
from kvstow.server.core.history import Recollection
from kvstow.server.core.requests import (
    OpenedSession,
    Process,
    ServerInfo,
    ServerState,
    StreamEnd,
)
from kvstow.server.core.snapshot import Snapshot
from kvstow.server.core.types import Identity, SessionEnd, SessionId, SpaceId, TransferKind
from kvstow.server.device.base import Device
from kvstow.server.device.handles import RankHandles

from .assembly import assemble, limits
from .devices import NO_HARDWARE, Hardware
from .flights import FlightKey
from .health import Health, Status
from .identities import log_space, slot_sizes
from .meters import NO_METERS, Meters
from .processes import opened
from .watch import Watcher
from .zeroing import Zero, no_pool

VERSION = version("kvstow")
"""Read from a file, so only once."""

_log = structlog.get_logger("kvstow.daemon")


class Life:
    """What the daemon does besides moving blocks.

    Args:
        config: the settings.
        device: makes the copies; the daemon closes it.
        hardware: what clients are told of the devices.
        clock: seconds of a clock that never goes back.
        meters: told of copies that ended.
        zero: zeroes pieces of the host pool, for tenants whose freed slots are zeroed.
        after_growth: called without the lock after a space was made.
    """

    def __init__(
        self,
        config: Config,
        device: Device,
        *,
        hardware: Hardware = NO_HARDWARE,
        clock: Callable[[], float] = time.monotonic,
        meters: Meters = NO_METERS,
        zero: Zero = no_pool,
        after_growth: Callable[[], None] = lambda: None,
    ) -> None:
        self.boot_id = uuid.uuid4().hex
        self._config = config
        self._clock = clock
        self._after_growth = after_growth
        self._began_at = clock()
        self._state = ServerState.STARTING
        self._parts = assemble(config, device, hardware, clock, meters, self._process_died, zero)
        self._guard = self._parts.guard
        self._sessions = self._parts.sessions
        self._flights = self._parts.flights

    def start(self) -> None:
        """Start the threads. Until `set_ready` every request is refused."""
        self._parts.start()

    def set_ready(self) -> None:
        """The host pool is there: take work."""
        with self._guard:
            self._state = ServerState.READY

    def look_again(self) -> None:
        """Do now what has fallen due, for clocks that jump; returns at once."""
        self._parts.timer.wake()

    def drain(self, grace_s: float, streams_s: float = 0.0) -> bool:
        """Take no new work, give transfers `grace_s` to end and then streams `streams_s`; whether all transfers have ended."""
        with self._guard as ledger:
            self._state = ServerState.DRAINING
            ledger.announce_drain(now=self._clock())
        drained = self._guard.wait_until(lambda _: not self._flights, grace_s)
        with self._guard:
            self._sessions.end_readers()
        self._guard.wait_until(lambda _: not self._sessions.has_readers, streams_s)
        with self._guard:
            self._guard.stop_waiting()
        return drained

    def close(self) -> None:
        """End all sessions and threads and close the device; copies that still run end as failed. May be repeated."""
        with self._guard as ledger:
            self._state = ServerState.DRAINING
            for session in self._sessions.all():
                ledger.end_session(session, SessionEnd.SHUTDOWN, now=self._clock())
                self._sessions.leave(session, StreamEnd.SHUTDOWN)
            self._guard.stop_waiting()
        self._parts.stop(self._config.drain_grace_s)

    @property
    def health(self) -> Health:
        """What is wrong, if anything."""
        return self._parts.health

    def info(self) -> ServerInfo:
        """Who the daemon is, what may be asked of it, and how it fares; answered in every state."""
        devices = self._parts.devices
        return ServerInfo(
            version=VERSION,
            boot_id=self.boot_id,
            state=self._state,
            limits=limits(self._config),
            policy=self._config.policy,
            uptime_s=self._clock() - self._began_at,
            copy_kernel=devices.hardware.copy_kernel,
            gpus=devices.gpus(),
            cuda_off=devices.hardware.cuda_off,
            pinned=devices.hardware.pinned,
        )

    def status(self) -> Status:
        """What the books do not show. A device that is found here not to answer is taken for gone until it is found to."""
        devices = self._parts.devices.look()
        with self._guard:
            stuck = self._flights.stuck_count()
            refusals = dict(self._guard.refusals)
        return Status(
            self._state, self.health.bug_count, stuck, refusals, self._guard.use, devices
        )

    def snapshot(self) -> Snapshot:
        """A picture of the books; answered in every state."""
        with self._guard as ledger:
            capture = ledger.capture(now=self._clock())
        return capture.develop()

    def space_identity(self, space: SpaceId) -> Identity:
        """What a space is named by; answered in every state."""
        with self._guard as ledger:
            return ledger.identity_of(space)

    def recall(self, space: SpaceId, group: int, keys: Sequence[bytes]) -> Recollection:
        """What the books know of keys; answered in every state. To explain it takes time, but no lock."""
        with self._guard as ledger:
            return ledger.recall(space, group, keys, now=self._clock())

    def copied_bytes(self) -> Mapping[TransferKind, int]:
        """Bytes that copies in each direction have moved since the start."""
        with self._guard:
            return Counter(self._flights.copied_bytes)

    def unfinished_ranks(self, transfers: Sequence[FlightKey]) -> list[list[int]]:
        """For each transfer, named by session and id, the ranks whose copy has not ended, rising."""
        with self._guard:
            return self._flights.unfinished_ranks(transfers)

    def check(self) -> None:
        """Verify the books, and what is kept beside them.

        Raises:
            BooksError: at the first contradiction.
        """
        with self._guard as ledger:
            ledger.check()
            self._sessions.attachments.check(self._flights.copy_counts())

    def open_session(
        self, identity: Identity, name: str, process: Process | None
    ) -> OpenedSession:
        """Open a session of the space of `identity`, and watch over the engine's process."""
        with opened(process) as pidfd, self._guard as ledger:
            self._require_ready()
            self._sessions.require_room(identity.tenant, self._config.max_tenant_sessions)
            session = ledger.open_session(identity, name, now=self._clock())
            space, generation = ledger.space_of(session)
            kin = self._sessions.enter_space(space, identity, ledger.space_ids())
            self._sessions.enter(session, identity, pidfd)
        if kin is not None:
            log_space(space, identity, kin, self._config)
            self._after_growth()
        _log.info("session opened", session=session, engine=name, space=space)
        return OpenedSession(
            session, space, generation, self._config.session_grace_s, slot_sizes(identity.layout)
        )

    def close_session(self, session: SessionId) -> None:
        """End a session; one that is not there is no error."""
        self._end_session(session, SessionEnd.CLOSED, StreamEnd.CLOSED)

    def identity(self, session: SessionId) -> Identity:
        """What a session was opened with."""
        return self._sessions.identity(session)

    def tenant_of(self, session: int) -> str | None:
        """Whose a session is; None if there is none. Needs no lock."""
        return self._sessions.tenant_of(SessionId(session))

    def attach(
        self,
        session: SessionId,
        rank: int,
        memory: RankHandles,
        process: Process | None,
    ) -> None:
        """Map a rank's memory, and watch over its process.

        Raises:
            RegionInvalid: another rank has attached some of the same bytes; and what `opening` and the ledger refuse.
        """
        with self._guard:
            self._require_ready()
            self._sessions.identity(session)
        attachments = self._sessions.attachments
        counts = tuple(group.block_count for group in memory.groups)
        with (
            opened(process) as pidfd,
            attachments.mapped(session, memory) as mapped,
            self._guard as ledger,
        ):
            self._require_ready()
            attachments.check_apart(session, rank, mapped)
            ledger.attach(session, rank, counts)
            attachments.enter(session, rank, mapped, None if pidfd is None else process)
            self._sessions.watch_process(session, rank, pidfd)
        _log.info("memory attached", session=session, rank=rank, blocks=counts)

    def detach(self, session: SessionId, rank: int, wait_s: float) -> bool:
        """Give a rank's memory back after its last copy; whether that was within `wait_s` seconds."""
        attachments = self._sessions.attachments
        with self._guard as ledger:
            self._require_started()
            self._sessions.identity(session)
            if attachments.detach(session, rank):
                ledger.detach(session, rank)
                self._sessions.processes.forget_rank(session, rank)
                ledger.cancel(session, self._flights.of(session), now=self._clock())
        return self._guard.wait_until(lambda _: attachments.is_closed(session, rank), wait_s)

    def watch(self, session: SessionId, after: int) -> Watcher:
        """Open the session's stream behind event `after`, which is acknowledged."""
        with self._guard as ledger:
            self._require_started()
            ledger.acknowledge(session, after)
            number = ledger.open_stream(session)
            reader = Watcher(self._guard, session, number, after, self._stop_watching)
            self._sessions.put_reader(reader)
        return reader

    def acknowledge(self, session: SessionId, sequence: int) -> None:
        """Forget the session's events up to `sequence`."""
        with self._guard as ledger:
            self._require_started()
            ledger.acknowledge(session, sequence)

    def _require_started(self) -> None:
        if self._state is ServerState.STARTING:
            raise NotStarted("the host pool is still being prepared")

    def _require_ready(self) -> None:
        self._require_started()
        if self._state is ServerState.DRAINING:
            raise ShuttingDown("the daemon is shutting down")

    def _end_session(self, session: SessionId, cause: SessionEnd, end: StreamEnd) -> None:
        try:
            with self._guard as ledger:
                ledger.end_session(session, cause, now=self._clock())
                self._sessions.leave(session, end)
        except NoSuchSession:
            return
        self._parts.timer.wake()
        _log.info("session ended", session=session, cause=cause.value)

    def _process_died(self, session: SessionId) -> None:
        with suppress(BooksError):  # the guard has reported it; the thread has others to watch
            self._end_session(session, SessionEnd.PROCESS_DIED, StreamEnd.LOST)

    def _stop_watching(self, reader: Watcher) -> None:
        with self._guard as ledger:
            ledger.close_stream(reader.session, reader.number, now=self._clock())
            self._sessions.drop_reader(reader)
            self._guard.progress()
