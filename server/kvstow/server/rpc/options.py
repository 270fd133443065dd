"""How the server is reached, as its settings say."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from kvstow.server.config import Config
from kvstow.server.values import Settings

from .access import EVERYBODY, Access
from .certificates import Certificates, read_certificates
from .open_calls import Shares
from .tokens import read_tokens
from .unix_socket import PRIVATE, Permissions, SocketError, SocketPath
from .watched import CredentialError, Watched

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the server is reached.

    Args:
        socket_path: of the Unix socket; None for none.
        tcp_address: host and port to listen on besides; None for none.
        max_sessions: streams that may be open.
        worker_count: threads for calls other than streams.
        tenant_sessions: streams that may be open of one tenant; None for all.
        reflection: whether clients may ask which services there are.
        permissions: who may connect to the socket.
        certificates: for TLS on the address; None for none.
        known_clients: whether clients need a certificate, too.
        access: who may call what.
        settings: those in force, to be shown to administrators.
    """

    socket_path: Path | None
    tcp_address: str | None = None
    max_sessions: int = 64
    worker_count: int = 16
    tenant_sessions: int | None = None
    reflection: bool = True
    permissions: Permissions = PRIVATE
    certificates: Certificates | None = None
    known_clients: bool = False
    access: Access = EVERYBODY
    settings: Settings = ()

    @property
    def thread_count(self) -> int:
        """Threads for calls; an open stream keeps one."""
        return self.max_sessions + self.worker_count

    @property
    def shares(self) -> Shares:
        """How many of them each may take: less than all, so that some are left for others."""
        streams = min(self.max_sessions, self.tenant_sessions or self.max_sessions)
        some = max(1, self.worker_count // 4)
        return Shares(tenant=streams + self.worker_count // 2, token=2 * some, nobody=some)


def server_options(config: Config, settings: Settings) -> ServerOptions:
    """The options that follow from settings, tokens and certificates read.

    Args:
        settings: the same, as they are shown.

    Raises:
        CredentialError: the socket, the tokens or the certificates cannot be used; has one line for each that cannot.
    """
    mistakes: list[str] = []
    certificates = _tried(partial(_certificates, config), mistakes)
    access = _tried(partial(_access, config), mistakes)
    permissions = _tried(partial(_permissions, config), mistakes)
    if access is None or permissions is None or mistakes:
        raise CredentialError("\n".join(mistakes))
    return ServerOptions(
        config.socket,
        config.listen,
        max_sessions=config.max_sessions,
        tenant_sessions=config.max_tenant_sessions,
        permissions=permissions,
        certificates=certificates,
        known_clients=config.tls_client_ca is not None,
        access=access,
        settings=settings,
    )


def unusable(config: Config) -> Iterator[str]:
    """What is wrong with the files, users and groups that settings name."""
    try:
        server_options(config, ())
    except CredentialError as error:
        yield str(error)


def _tried(read: Callable[[], _T], mistakes: list[str]) -> _T | None:
    """What `read` returns; None if that fails, and then the mistakes say why."""
    try:
        return read()
    except (CredentialError, SocketError) as error:
        mistakes.append(str(error))
        return None


def _permissions(config: Config) -> Permissions:
    permissions = Permissions(
        config.socket_mode,
        config.socket_owner,
        config.socket_group,
        config.socket_shared_directory,
    )
    SocketPath(config.socket, permissions).check()
    return permissions


def _certificates(config: Config) -> Certificates | None:
    cert, key, client_ca = config.tls_cert, config.tls_key, config.tls_client_ca
    if cert is None or key is None:
        return None
    paths = [path for path in (cert, key, client_ca) if path is not None]
    return Watched(paths, partial(read_certificates, cert, key, client_ca))


def _access(config: Config) -> Access:
    place, path = config.memory_path, config.tokens
    if path is None:
        return Access(memory_path=place)
    tokens = Watched([path], partial(read_tokens, path, place))
    return Access(tokens, config.socket_without_token, place)
