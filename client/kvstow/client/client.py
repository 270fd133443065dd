"""The way in: one daemon, as many sessions as engines need."""

from kvstow.v1 import cache_pb2, identity_pb2

from .administration import Administration
from .calls import Budgets, Calls
from .closing import Closing
from .credentials import Credentials
from .events import Callbacks
from .session import Session
from .standing import SessionState
from .target import check_target, default_target

_DEFAULT_BUDGETS = Budgets()
_NO_CALLBACKS = Callbacks()


class Client(Closing):
    """A connection to a daemon; made at once, whether or not the daemon is there.

    Not for several threads at once; its sessions are.

    Args:
        target: `unix:/path/of/the/socket` or `host:port`; by default the socket that a daemon of
            this user listens on.
        budgets: how long calls may keep their caller waiting.
        credentials: how the client shows who it is; None: those that the environment names, see
            `Credentials.from_environment`.

    Attributes:
        administration: what an administrator may ask.

    Raises:
        ValueError: the target has neither form, or the credentials cannot be used.
    """

    def __init__(
        self,
        target: str = "",
        budgets: Budgets = _DEFAULT_BUDGETS,
        credentials: Credentials | None = None,
    ) -> None:
        target = target or default_target()
        check_target(target)
        self._budgets = budgets
        self._calls = Calls(target, credentials)
        self._sessions: list[Session] = []
        self.administration = Administration(self._calls, budgets.control_s)

    def server_info(self) -> cache_pb2.GetServerInfoResponse:
        """Who the daemon is and what it takes; answered in every state of it.

        Raises:
            Unreachable: it does not answer.
        """
        info: cache_pb2.GetServerInfoResponse = self._calls.ask(
            self._calls.cache.GetServerInfo,
            cache_pb2.GetServerInfoRequest(),
            self._budgets.control_s,
        )
        return info

    def open(
        self,
        identity: identity_pb2.Identity,
        name: str,
        *,
        callbacks: Callbacks = _NO_CALLBACKS,
        must_connect: bool = True,
    ) -> Session:
        """Open a session and its stream.

        Args:
            identity: everything that must be equal before one engine may read another's blocks.
            name: of the engine, for people.
            callbacks: what the session shall tell its engine.
            must_connect: raise if the daemon is not there or not ready. Otherwise the session is
                AWAY until the daemon comes, and an engine runs without it meanwhile.

        Raises:
            Refused: the daemon does not take the session.
            Unreachable: it does not answer.
        """
        session = Session(self._calls, identity, name, self._budgets, callbacks)
        session.start(must_connect)
        open_ones = [one for one in self._sessions if one.state is not SessionState.CLOSED]
        self._sessions = [*open_ones, session]
        return session

    def close(self) -> None:
        """Close the sessions that are open still, and end the connection."""
        for session in self._sessions:
            session.close()
        self._calls.close()
