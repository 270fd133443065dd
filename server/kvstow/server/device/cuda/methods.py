"""Which calls of the driver make the copies of one GPU.

Batches are the fastest way to the copy engines. Drivers before CUDA 12.8 have none, and one that has them may refuse them
when they come: because it does not support them here, or because it takes something in them for wrong. So a batch that is
refused is made of rows, and if the driver takes those, so are all that follow. To issue copies a second time is harmless:
what of the batch was queued all the same is on the stream before the rows, the sources are what they were, and nobody else
touches the targets before the transfer has ended.
"""

import threading
from enum import Enum

import structlog

from kvstow.server.device.base import Direction

from .batches import Batch, HostChunks, as_rows
from .driver import INVALID_VALUE, NOT_SUPPORTED, CudaError, Driver

_log = structlog.get_logger("kvstow.device")


class Method(Enum):
    """How copies are made."""

    BATCHES = "batches"
    ROWS = "rows"


class Copies:
    """Issues the copies of one GPU; any thread that has it current.

    Args:
        driver: makes the calls.
        gpu: UUID of the GPU.
        host: where the pool lies.
        method: how copies are made, until the driver refuses it.

    Attributes:
        method: how they are made now.
    """

    def __init__(self, driver: Driver, gpu: str, host: HostChunks, method: Method) -> None:
        self.method = method
        self._driver = driver
        self._gpu = gpu
        self._host = host
        self._accepted: set[Direction] = set()
        self._changing = threading.Lock()

    def issue(self, batch: Batch, stream: int) -> None:
        """Queue copies on a stream.

        Raises:
            CudaError: nobody knows how many of them are queued.
        """
        match self.method:
            case Method.BATCHES:
                self._issue_batch(batch, stream)
            case Method.ROWS:
                self._issue_rows(batch, stream)

    def _issue_batch(self, batch: Batch, stream: int) -> None:
        try:
            self._driver.copy_batch(batch, stream)
        except CudaError as error:
            if not self._refuses_batches(error, batch.direction):
                raise
            self._issue_rows(batch, stream)
            self._do_without_batches(error)
        else:
            self._accepted.add(batch.direction)

    def _issue_rows(self, batch: Batch, stream: int) -> None:
        self._driver.copy_rows(as_rows(batch, self._host), stream)

    def _refuses_batches(self, error: CudaError, direction: Direction) -> bool:
        """Whether an error may be one of batches as such: those of this direction were never taken, or are not supported."""
        unheard_of = error.code == INVALID_VALUE and direction not in self._accepted
        return unheard_of or error.code == NOT_SUPPORTED

    def _do_without_batches(self, error: CudaError) -> None:
        """Say so, once."""
        with self._changing:
            before, self.method = self.method, Method.ROWS
        if before is not Method.ROWS:
            _log.warning(
                "the driver refuses copies in batches: they are made in rows, which is slower for small blocks",
                gpu=self._gpu,
                reason=str(error),
            )
