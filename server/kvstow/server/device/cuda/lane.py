"""One direction of one GPU: a stream, and two threads that keep it busy.

Each thread takes a piece, queues it on the stream as one batch with an event behind it, and waits for the event. While one
waits, the other has its piece on the stream already, so the copy engine never waits for Python. Loads and stores have a
lane each, because they have a copy engine each and need not wait for one another.

The lane's stream knows nothing of the engine's: that the engine is done with the memory was seen before a copy came here
(`fences`), or the engine had confirmed it.

How a piece is copied, and when it is over, `methods` knows.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kvstow.server.core.spans import Spans
from kvstow.server.device.base import Copy, DeviceError, Direction, Region
from kvstow.server.device.bounds import check_inside
from kvstow.server.device.streams import CopyPiece, Streams

from .batches import HostChunks, make_batch
from .beats import Beat
from .driver import CudaError, Driver
from .methods import Copies, Tools

THREADS = 2
PIECE_BYTES = 16 << 20
"""Less than half a millisecond of PCIe 5: what a small copy may have to wait for twice."""


@dataclass(frozen=True, slots=True)
class Path:
    """How copies get from a GPU to the host pool and back.

    Args:
        driver: makes the calls.
        gpu: number of the GPU.
        host: where the pool lies.
        pool_bytes: its size.
        copies: makes them.
        piece_bytes: most that one batch moves.
    """

    driver: Driver
    gpu: int
    host: HostChunks
    pool_bytes: int
    copies: Copies
    piece_bytes: int = PIECE_BYTES


@dataclass(frozen=True, slots=True)
class _Worker:
    """What each thread has of its own."""

    tools: Tools
    beat: Beat


class Lane:
    """The copies of one direction. Made and destroyed by a thread that has the GPU current; any thread may submit.

    Args:
        path: how they get there.
        direction: which.
        locate: addresses of opened regions; raises a `DeviceError` if one is closed.
        failed: told of every error of the driver.
        make_beat: makes a beat that is watched.
    """

    def __init__(
        self,
        path: Path,
        direction: Direction,
        locate: Callable[[Sequence[Region]], Sequence[int]],
        failed: Callable[[CudaError], None],
        make_beat: Callable[[], Beat],
    ) -> None:
        self._path = path
        self._what = f"a {direction.value} of a piece"
        self._locate = locate
        self._failed = failed
        self._make_beat = make_beat
        self._workers: dict[int, _Worker] = {}  # by thread
        self.stream = path.driver.create_stream()
        name = f"gpu-{path.gpu}-{direction.value}"
        self.copies = Streams(self._prepare, THREADS, path.piece_bytes, name)

    def destroy(self) -> None:
        """Destroy the stream and the events; the threads have ended, or have nothing to do."""
        self.copies.close()
        for worker in self._workers.values():
            self._path.copies.destroy_tools(worker.tools)
        self._path.driver.destroy_stream(self.stream)

    def _prepare(self, copy: Copy) -> CopyPiece:
        """Look up the memory of a copy; the daemon closes none of it before the copy has ended."""
        path = self._path
        check_inside(copy.spans, path.pool_bytes, [region.size_bytes for region in copy.regions])
        starts = np.array(self._locate(copy.regions), dtype=np.int64)

        def copy_piece(piece: Spans) -> Sequence[tuple[int, str]]:
            batch = make_batch(copy.direction, piece, starts, path.host)
            try:
                worker = self._worker()
                with worker.beat.during(self._what):
                    path.copies.copy(batch, self.stream, worker.tools)
            except CudaError as error:
                self._failed(error)
                raise DeviceError(f"GPU {path.gpu}: {error}") from error
            return ()

        return copy_piece

    def _worker(self) -> _Worker:
        """What the calling thread has of its own; made when it comes for the first time."""
        worker = self._workers.get(threading.get_ident())
        if worker is None:
            driver, beat = self._path.driver, self._make_beat()
            with beat.during("making a thread's tools"):
                driver.use(self._path.gpu)
                worker = _Worker(self._path.copies.make_tools(), beat)
            self._workers[threading.get_ident()] = worker
        return worker
