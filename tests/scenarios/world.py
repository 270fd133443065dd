"""What a scenario script is about: one ledger, its clock, and the names that the script gives to ids.

The world is to the ledger what a daemon and its engines are: it says what time it is, and copies end only when the script
says so. A key is a number; its bytes lie in the engine block of the same number unless the script says otherwise.
"""

from dataclasses import dataclass, field

from core.engines import key, make_ledger
from kvstow.server.core.errors import NoSuchSession
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.types import GroupBlocks, Layout, LeaseId, SessionId, SpaceId
from scenarios.script import Command

NOWHERE = 999
"""Id of every session, space and lease that a script names but never made."""


@dataclass(slots=True)
class Names:
    """What the script calls sessions, spaces and (by the request they are for) leases."""

    sessions: dict[str, SessionId] = field(default_factory=dict)
    spaces: dict[str, SpaceId] = field(default_factory=dict)
    leases: dict[str, LeaseId] = field(default_factory=dict)

    def session(self, found: SessionId) -> str:
        """Name of a session."""
        return next(name for name, known in self.sessions.items() if known == found)

    def space(self, found: SpaceId) -> str:
        """Name of a space."""
        return next(name for name, known in self.spaces.items() if known == found)

    def lease(self, found: LeaseId) -> str:
        """Name of the request that a lease is for."""
        return next(name for name, known in self.leases.items() if known == found)

    def facts(self) -> dict[str, dict[str, str]]:
        """For the facts of a refusal: per kind of id, the name of each."""
        return {
            "session": {str(found): name for name, found in self.sessions.items()},
            "space": {str(found): name for name, found in self.spaces.items()},
        }


@dataclass(slots=True)
class World:
    """One ledger and everybody who uses it.

    Attributes:
        now: the time, in seconds.
        read: per session, number of the last event that its engine has read.
        mentioned: per group, the keys that the script has named so far.
    """

    ledger: Ledger = field(default_factory=lambda: make_ledger(4))
    now: float = 0.0
    names: Names = field(default_factory=Names)
    read: dict[SessionId, int] = field(default_factory=dict)
    mentioned: list[set[int]] = field(default_factory=list)

    def session(self, command: Command) -> SessionId:
        """The session that the command's first word names."""
        return self.names.sessions.get(command.word(0), SessionId(NOWHERE))

    def space(self, command: Command) -> SpaceId:
        """The space that the command's first word names."""
        return self.names.spaces.get(command.word(0), SpaceId(NOWHERE))

    def generation(self, command: Command) -> int:
        """The generation that the command names, or else the current one of its session's space."""
        if command.has("gen"):
            return command.number("gen", 1)
        try:
            return self.ledger.space_of(self.session(command))[1]
        except NoSuchSession:
            return 1

    def layout(self, session: SessionId) -> Layout:
        """The layout of a session's space."""
        space, _ = self.ledger.space_of(session)
        views = self.ledger.snapshot(now=self.now).spaces
        return next(view.identity.layout for view in views if view.id == space)

    def keys(self, command: Command) -> list[list[int]]:
        """The keys that the command names, per group."""
        groups = command.groups("keys")
        self.mentioned += [set() for _ in groups[len(self.mentioned) :]]
        for mentioned, numbers in zip(self.mentioned, groups, strict=False):
            mentioned.update(numbers)
        return groups

    def blocks(self, command: Command) -> list[GroupBlocks]:
        """The blocks that a transfer names, per group."""
        keys = self.keys(command)
        blocks = command.groups("blocks") if command.has("blocks") else keys
        return [
            GroupBlocks(group, [key(number) for number in numbers], ids)
            for group, numbers, ids in zip(
                command.numbers("groups", f"0..{len(keys) - 1}"), keys, blocks, strict=True
            )
        ]
