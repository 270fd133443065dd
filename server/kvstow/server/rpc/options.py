"""How the server is reached, as its settings say."""

from dataclasses import dataclass
from pathlib import Path

from kvstow.server.config import Config, Settings


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the server is reached.

    Args:
        socket_path: of the Unix socket; None for none.
        tcp_address: host and port to listen on besides; None for none.
        max_sessions: streams that may be open.
        worker_count: threads for calls other than streams.
        reflection: whether clients may ask which services there are.
        settings: those in force, to be shown to administrators.
    """

    socket_path: Path | None
    tcp_address: str | None = None
    max_sessions: int = 64
    worker_count: int = 16
    reflection: bool = True
    settings: Settings = ()


def server_options(config: Config, settings: Settings) -> ServerOptions:
    """The options that follow from settings.

    Args:
        settings: the same, as they are shown.
    """
    return ServerOptions(
        config.socket, config.listen, max_sessions=config.max_sessions, settings=settings
    )
