"""What the daemon keeps of a session besides the books: what it was opened with, its reader, its processes, its memory.

Everything here is called under the lock, except `identity` and `tenant_of`, which read one dictionary entry.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvstow.server.core.errors import NoSuchSession, TooManySessions
from kvstow.server.core.requests import StreamEnd
from kvstow.server.core.types import Identity, SessionId, SpaceId

from .attachments import Attachments
from .processes import Owner, Processes
from .watch import Watcher


@dataclass(slots=True)
class Sessions:
    """All living sessions.

    Args:
        attachments: the memory of their ranks.
        processes: watches over their processes.
    """

    attachments: Attachments
    processes: Processes
    _identities: dict[SessionId, Identity] = field(default_factory=dict)
    _readers: dict[SessionId, Watcher] = field(default_factory=dict)
    _spaces: dict[SpaceId, Identity] = field(default_factory=dict)

    def require_room(self, tenant: str, limit: int | None) -> None:
        """Refuse more sessions of one tenant than it may have.

        Raises:
            TooManySessions: it has so many.
        """
        count = sum(found.tenant == tenant for found in self._identities.values())
        if limit is not None and count >= limit:
            raise TooManySessions(
                f"tenant {tenant!r} has {count} sessions, its limit; see max_tenant_sessions",
                limit=limit,
            )

    def enter(self, session: SessionId, identity: Identity, pidfd: int | None) -> None:
        """A session was opened."""
        self._identities[session] = identity
        self.watch_process(session, None, pidfd)

    def watch_process(self, session: SessionId, owner: Owner, pidfd: int | None) -> None:
        """The session ends when the process behind this descriptor does; None if it cannot be watched."""
        if pidfd is not None:
            self.processes.add(session, owner, pidfd)

    def enter_space(
        self, space: SpaceId, identity: Identity, living: Iterable[SpaceId]
    ) -> list[Identity] | None:
        """Note the space of a session.

        Args:
            living: all spaces that there are.

        Returns:
            None if the space was known, else the identities of the others that serve the same model.
        """
        if space in self._spaces:
            return None
        self._spaces = {known: self._spaces[known] for known in living if known in self._spaces}
        kin = [other for other in self._spaces.values() if other.model == identity.model]
        self._spaces[space] = identity
        return kin

    def identity(self, session: SessionId) -> Identity:
        """What a session was opened with; needs no lock.

        Raises:
            NoSuchSession: it has ended or never was.
        """
        found = self._identities.get(session)
        if found is None:
            raise NoSuchSession(
                f"session {session} does not exist in this daemon process", session=session
            )
        return found

    def tenant_of(self, session: SessionId) -> str | None:
        """Whose a session is, None if it has ended or never was; needs no lock."""
        found = self._identities.get(session)
        return None if found is None else found.tenant

    def all(self) -> list[SessionId]:
        """Every living session."""
        return list(self._identities)

    def leave(self, session: SessionId, end: StreamEnd) -> None:
        """A session has ended in the books."""
        del self._identities[session]
        self.processes.forget(session)
        self.attachments.detach_all(session)
        reader = self._readers.pop(session, None)
        if reader is not None:
            reader.finish(end)

    def put_reader(self, reader: Watcher) -> None:
        """A stream was opened; an older one of the session ends."""
        older = self._readers.get(reader.session)
        if older is not None:
            older.finish(StreamEnd.REPLACED)
        self._readers[reader.session] = reader

    def drop_reader(self, reader: Watcher) -> None:
        """A reader has closed its stream."""
        reader.finish(StreamEnd.CLOSED)
        if self._readers.get(reader.session) is reader:
            del self._readers[reader.session]

    @property
    def has_readers(self) -> bool:
        """Whether a stream is open that its reader has not closed."""
        return bool(self._readers)

    def end_readers(self) -> None:
        """The daemon has drained: each reader is told after the events that wait for it."""
        for reader in self._readers.values():
            reader.finish(StreamEnd.SHUTDOWN)

    def wake_readers(self, told: Iterable[SessionId]) -> None:
        """Events wait for these sessions; needs no lock."""
        for session in told:
            reader = self._readers.get(session)
            if reader is not None:
                reader.wake()
