"""Who makes a call: the value that authorization is about. Pure; anybody may call it."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Role(Enum):
    """What a caller may do: an engine works in the spaces of its tenant, an administrator may do everything, and who is
    read-only may look at everything and change nothing."""

    ENGINE = "engine"
    ADMINISTRATOR = "administrator"
    READ_ONLY = "read-only"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call.

    Args:
        name: of the token, for people; empty without one.
        role: what it may do.
        tenant: whose spaces an engine works in; empty for other roles.
        memory_path: directory that the memory it attaches has to lie in; None for any.
        digest: SHA-256 of its token; empty without one.
    """

    name: str
    role: Role
    tenant: str = ""
    memory_path: Path | None = None
    digest: bytes = field(default=b"", repr=False)

    @property
    def share(self) -> str:
        """Who uses the daemon's threads together: all engines of a tenant, or everybody with one token."""
        return f"tenant {self.tenant}" if self.tenant else f"token {self.name}"


CALLER: ContextVar[Caller] = ContextVar("caller")
"""Who makes the call that this thread carries out."""
