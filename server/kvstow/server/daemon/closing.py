"""Closes the memory that nothing touches any more, on a thread of its own: a device may take long, or hang.

What waits for a device that does not answer is tried again, and keeps the memory of other devices no longer than one such
attempt.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kvstow.server.device.base import DeviceBusyError, DeviceError

from .attachments import Attachment, Attachments
from .guard import NEVER, Guard
from .health import Health

RETRY_S = 1.0
_log = structlog.get_logger("kvstow.daemon")


@dataclass(slots=True)
class Closing:
    """The work of the closer thread.

    Args:
        guard: the lock and the books.
        attachments: which memory is open.
        health: told of our own mistakes.
        clock: the daemon's clock.
    """

    guard: Guard
    attachments: Attachments
    health: Health
    clock: Callable[[], float]

    def work(self) -> float:
        """Close what can be closed; returns when to come again."""
        with self.guard:
            closable = self.attachments.closable()
        closed = [self._close(attachment) for attachment in closable]
        return NEVER if all(closed) else self.clock() + RETRY_S

    def _close(self, attachment: Attachment) -> bool:
        """Close one; False if the device is not ready to."""
        try:
            self.attachments.close(attachment)
        except DeviceBusyError as error:
            _log.warning(
                "engine memory cannot be closed yet",
                session=attachment.session,
                rank=attachment.rank,
                reason=str(error),
            )
            return False
        except DeviceError as error:
            self.health.report("closing of engine memory", error)
        with self.guard:
            self.attachments.forget(attachment)
            self.guard.progress()
        return True
