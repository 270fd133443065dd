"""Tells the service manager how the daemon is: the protocol of sd_notify(3), one datagram for each message.

Decided here: how it is said. Not decided here: when; the main thread says so. A manager that cannot be reached is a
warning, once for as long as that lasts: the daemon serves its engines whatever becomes of its supervision, and goes on
telling, because a manager that is only too busy to read would otherwise end it for its silence.
"""

import socket
from collections.abc import Mapping

import structlog

_log = structlog.get_logger("kvstow")


class ServiceManager:
    """The manager that the environment names; without one, nothing is said.

    Args:
        environment: of this process. `NOTIFY_SOCKET` is a path, or a name in the abstract namespace after an `@`.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._is_heard = True

    def preparing(self, percent: int) -> None:
        """The host pool is being faulted in."""
        self._say(f"STATUS=preparing the host pool: {percent} %")

    def ready(self) -> None:
        """It takes work."""
        self._say("READY=1\nSTATUS=ready")

    def alive(self) -> None:
        """It can be relied on; the manager acts when this is not said for longer than its watchdog allows."""
        self._say("WATCHDOG=1")

    def draining(self) -> None:
        """It ends when the last copy has ended."""
        self._say("STOPPING=1\nSTATUS=draining")

    def _say(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            if self._is_heard:
                _log.warning("the service manager does not listen", error=error.strerror)
            self._is_heard = False
        else:
            self._is_heard = True
