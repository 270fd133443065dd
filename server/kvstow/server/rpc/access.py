"""Who may call what: the one table of rights, and how a caller is known.

Decided here: which role a method needs, and what an engine may see. A method without a rule is refused to everybody. A session
that is not the caller's is answered by the same line as one that does not exist, and before anything else is looked at, so
that neither the words nor the order of checks tell them apart.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from kvstow.server.core.errors import NoSuchSession
from kvstow.server.core.snapshot import Snapshot, TransferView
from kvstow.v1 import cache_pb2

from .callers import CALLER, Caller, Role
from .status import NotPermitted, Unauthenticated
from .tokens import whose
from .watched import Watched

Tokens = Watched[tuple[Caller, ...]]
"""Who has a token that is in force."""

AUTHORIZATION_KEY = "authorization"
SCHEME = "bearer "
"""Before the token, in any case (RFC 6750)."""


class Needs(Enum):
    """What a method needs: the roles that may call it, and the words in which a refusal says so."""

    # No empty tuple: Python 3.11.2, which is Debian's, loses a member's value if it is one.
    NOTHING = frozenset[Role]()
    ANY_TOKEN = (Role.ENGINE, Role.READ_ONLY, Role.ADMINISTRATOR)
    LOOKING = (Role.READ_ONLY, Role.ADMINISTRATOR)
    ENGINE = (Role.ENGINE, Role.ADMINISTRATOR)
    ADMINISTRATOR = (Role.ADMINISTRATOR,)


_CACHE = "/kvstow.v1.CacheService/"
_ADMIN = "/kvstow.v1.AdminService/"
_DEBUG = "/kvstow.v1.DebugService/"
_HEALTH = "/grpc.health.v1.Health/"

RULES: Mapping[str, Needs] = {
    # Where probes ask, which have no token: it says only whether the daemon serves.
    f"{_HEALTH}Check": Needs.NOTHING,
    f"{_HEALTH}Watch": Needs.ANY_TOKEN,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Needs.ANY_TOKEN,
    f"{_CACHE}GetServerInfo": Needs.ANY_TOKEN,
    f"{_CACHE}OpenSession": Needs.ENGINE,
    f"{_CACHE}CloseSession": Needs.ENGINE,
    f"{_CACHE}AttachMemory": Needs.ENGINE,
    f"{_CACHE}DetachMemory": Needs.ENGINE,
    f"{_CACHE}Lookup": Needs.ENGINE,
    f"{_CACHE}Store": Needs.ENGINE,
    f"{_CACHE}Load": Needs.ENGINE,
    f"{_CACHE}Release": Needs.ENGINE,
    f"{_CACHE}Cancel": Needs.ENGINE,
    f"{_CACHE}Reset": Needs.ENGINE,
    f"{_CACHE}Watch": Needs.ENGINE,
    f"{_CACHE}Acknowledge": Needs.ENGINE,
    # Engines see their tenant's rows only; see `visible`.
    f"{_ADMIN}ListSpaces": Needs.ANY_TOKEN,
    f"{_ADMIN}ListSessions": Needs.ANY_TOKEN,
    f"{_ADMIN}ListTransfers": Needs.ANY_TOKEN,
    f"{_ADMIN}ListLeases": Needs.ANY_TOKEN,
    f"{_ADMIN}GetStats": Needs.LOOKING,
    f"{_ADMIN}GetConfiguration": Needs.LOOKING,
    f"{_ADMIN}ExplainKeys": Needs.LOOKING,
    f"{_ADMIN}ListMisses": Needs.LOOKING,
    f"{_ADMIN}ResetSpace": Needs.ADMINISTRATOR,
    f"{_ADMIN}ResetAll": Needs.ADMINISTRATOR,
    f"{_ADMIN}DropSpace": Needs.ADMINISTRATOR,
    # It changes nothing, and stops everything for seconds.
    f"{_ADMIN}CheckLedger": Needs.ADMINISTRATOR,
    f"{_DEBUG}AddFault": Needs.ADMINISTRATOR,
    f"{_DEBUG}ReleaseFault": Needs.ADMINISTRATOR,
    f"{_DEBUG}ListFaults": Needs.ADMINISTRATOR,
}

ENDED_IS_FINE: Mapping[str, Callable[[], Any]] = {
    f"{_CACHE}CloseSession": cache_pb2.CloseSessionResponse
}
"""Methods to which a session that does not exist is no error, with what they answer then."""


@dataclass(frozen=True, slots=True)
class Access:
    """How callers are known.

    Args:
        tokens: those in force; None: none are needed, and everybody may do everything.
        socket_without_token: whoever can connect to the Unix socket needs none.
        memory_path: directory that the memory of callers without a token has to lie in; None for any.
    """

    tokens: Tokens | None = None
    socket_without_token: bool = False
    memory_path: Path | None = None

    def caller(
        self, method: str, metadata: Iterable[tuple[str, str | bytes]], peer: str
    ) -> Caller | None:
        """Who calls; None for somebody unknown who needs no token for this.

        Args:
            method: full name of the method.
            metadata: what came with the call.
            peer: where it came from, in gRPC's words.

        Raises:
            Unauthenticated: a token is needed, and there is none or an unknown one.
        """
        anybody = Caller("", Role.ADMINISTRATOR, memory_path=self.memory_path)
        if self.tokens is None:
            return anybody
        presented = _presented(metadata)
        if presented is not None:
            caller = whose(presented, self.tokens.content)
            if caller is not None:
                return caller
        elif self.socket_without_token and peer.startswith("unix:"):
            return anybody
        if RULES.get(method) is Needs.NOTHING:
            return None
        raise Unauthenticated(
            "the call shows no token"
            if presented is None
            else "nobody has the token that the call shows"
        )

    def is_valid(self, caller: Caller) -> bool:
        """Whether a caller that was admitted would be still."""
        if self.tokens is None or not caller.name:
            return True
        return caller in self.tokens.content


EVERYBODY = Access()
"""No tokens: whoever can connect may do everything."""


def require_role(caller: Caller, method: str) -> None:
    """A caller calls only what its role may.

    Raises:
        NotPermitted: it may not.
    """
    needs = RULES.get(method)
    if needs is None:
        raise NotPermitted(f"no rule says who may call {method}")
    if caller.role not in _roles(needs):
        raise NotPermitted(
            f"{method} is not for a token with the role {caller.role.value}",
            role=caller.role.value,
            needed=", ".join(role.value for role in needs.value),
        )


def require_own(caller: Caller, session: int, tenant_of: Callable[[int], str | None]) -> None:
    """An engine names only sessions of its tenant.

    Args:
        tenant_of: whose a session is; None if there is none.

    Raises:
        NoSuchSession: it is another tenant's, or nobody's.
    """
    if caller.role is Role.ENGINE and tenant_of(session) != caller.tenant:
        raise NoSuchSession(
            f"session {session} does not exist in this daemon process", session=session
        )


def require_tenant(caller: Caller, named: str) -> str:
    """The tenant for which a session is opened: an engine's own, whether or not it names it.

    Raises:
        NotPermitted: it names another.
    """
    if caller.role is not Role.ENGINE or named == caller.tenant:
        return named
    if named:
        raise NotPermitted(
            f"the token is of tenant {caller.tenant!r}, the identity of {named!r}",
            tenant=caller.tenant,
        )
    return caller.tenant


def visible(snapshot: Snapshot) -> Snapshot:
    """What the caller of this call may see of the books."""
    caller = CALLER.get()
    if caller.role is not Role.ENGINE:
        return snapshot
    spaces = tuple(space for space in snapshot.spaces if space.identity.tenant == caller.tenant)
    ids = {space.id for space in spaces}
    sessions = tuple(session for session in snapshot.sessions if session.space in ids)
    own = {session.id for session in sessions}
    return replace(
        snapshot,
        spaces=spaces,
        sessions=sessions,
        transfers=tuple(found for found in snapshot.transfers if found.space in ids),
        leases=tuple(lease for lease in snapshot.leases if lease.session in own),
    )


def homeless(snapshot: Snapshot) -> list[TransferView]:
    """Transfers of spaces that were dropped: nothing says whose they are, so an engine is told that there are some."""
    ids = {space.id for space in snapshot.spaces}
    return [found for found in snapshot.transfers if found.space not in ids]


def _roles(needs: Needs) -> tuple[Role, ...]:
    return needs.value or tuple(Role)


def _presented(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """The token that a call shows; None if it shows none."""
    for key, value in metadata:
        if key == AUTHORIZATION_KEY and isinstance(value, str):
            scheme, token = value[: len(SCHEME)], value[len(SCHEME) :]
            return token.strip() if scheme.lower() == SCHEME else ""
    return None
