"""Says in the log that callers are refused, and never so often that they could fill it."""

import threading
import time
from collections.abc import Callable

import structlog

from kvstow.server.core.errors import Refusal

PERIOD_S = 1.0
_log = structlog.get_logger("kvstow.security")


class Alarm:
    """Counts what it does not say; may be called from any thread.

    Args:
        clock: seconds on a clock that only rises.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._quiet_until = clock()
        self._unsaid = 0

    def refused(self, refusal: Refusal, method: str, peer: str, caller: str = "") -> None:
        """Somebody was refused.

        Args:
            method: full name of the method that was asked for.
            peer: where the call came from, in gRPC's words.
            caller: name of the token; empty if it is not known, or there is none.
        """
        with self._lock:
            if self._clock() < self._quiet_until:
                self._unsaid += 1
                return
            unsaid, self._unsaid = self._unsaid, 0
            self._quiet_until = self._clock() + PERIOD_S
        _log.warning(
            "a caller is refused",
            reason=refusal.reason,
            why=str(refusal),
            method=method,
            caller=caller,
            peer=peer,
            others_before=unsaid,
        )
