"""Where the scheduler half marks stores that have ended, for workers that wait for them.

A piece of shared memory with one number for each of SLOTS slots. Stores are numbered from 1; store n
is marked by writing n into slot n % SLOTS, so that a worker in any process knows that it has ended
when its slot holds n or more. A number is not given out before the one that had its slot last has
ended (`Stores` takes care of that). The writer is whatever thread ends the transfer.
"""

import mmap
import os
import time

from kvstow.client.closing import Closing
from kvstow.client.memory import EngineMemory

SLOTS = 1024
_SLOT_BYTES = 8
_PAUSE_S = 0.0002


class Board(Closing):
    """The scheduler half's side.

    Attributes:
        path: for the workers.
    """

    def __init__(self) -> None:
        self._memory = EngineMemory(SLOTS * _SLOT_BYTES)
        self._slots = self._memory.buffer.cast("Q")
        self.path = str(self._memory.path)

    def mark(self, number: int) -> None:
        """The store has ended, its copy touches no block any more."""
        self._slots[number % SLOTS] = number

    def close(self) -> None:
        """Nobody waits any more."""
        self._memory.close()


class BoardView:
    """A worker's side."""

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            memory = mmap.mmap(descriptor, SLOTS * _SLOT_BYTES, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self.path = path
        self._slots = memoryview(memory).cast("Q")

    def wait(self, number: int, timeout_s: float) -> bool:
        """Wait until a store has ended; returns False if it has not within `timeout_s`."""
        until = time.monotonic() + timeout_s
        while self._slots[number % SLOTS] < number:
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE_S)
        return True
