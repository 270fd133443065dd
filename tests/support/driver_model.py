"""A model of the CUDA driver, for one process: what `Driver` asks, stricter than CUDA itself.

Each of these raises a `ModelError` and is remembered, so that a test fails even if somebody caught it:
a call without a current GPU in its thread; a call by a thread that is none of the device's own, or that holds the daemon's
lock; a copy outside an open mapping or, where the pool is to be page-locked, outside one page-locked piece; memory that is
unmapped or unlocked while a copy is queued that touches it; an allocation that is mapped twice; an event that was never
recorded or is destroyed; a stream destroyed with work on it; a stream, an event or memory of another GPU than the current
one; a context given up with something in it.

A call can be told to fail or to hang.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kvstow.server.device.base import Direction
from kvstow.server.device.cuda.batches import Batch, Rows
from kvstow.server.device.cuda.driver import CudaError, GpuInfo

from .driver_model_kernels import Kernels, host_bytes, move
from .driver_model_rules import Locked, Mapped
from .driver_model_world import Bytes, EngineProcess, Event, Stream, Work, World

Copies = list[tuple[int, int, int]]
"""Address on the GPU, address in host memory, bytes."""


class DriverModel(Kernels):
    """The driver as the daemon's process sees it.

    Args:
        world: the machine.
        pinned: host memory of copies is to be page-locked.
        batched: whether batches are taken.
        any_thread: calls are welcome from every thread.

    Attributes:
        own_process: what the daemon itself might export.
        pinned: see above.
        tells_sizes: whether the size of imported memory is told.
    """

    def __init__(
        self, world: World, *, pinned: bool = True, batched: bool = True, any_thread: bool = False
    ) -> None:
        super().__init__(world, any_thread=any_thread)
        self.own_process = EngineProcess(world)
        self.pinned = pinned
        self.tells_sizes = True
        self._batched = batched
        self._refusal: tuple[CudaError, int] | None = None

    def gpus(self) -> Sequence[GpuInfo]:
        return [GpuInfo(number, uuid, "Model") for number, uuid in enumerate(self.world.uuids)]

    def use(self, gpu: int) -> None:
        self.begin("use", needs_gpu=False)
        self.put(-1 - gpu, self.gpus()[gpu])
        self.gpu = gpu

    def release(self, gpu: int) -> None:
        self.begin("release", needs_gpu=False)
        self.take(-1 - gpu, GpuInfo)
        if left := self.in_context(gpu):
            self.wrong(f"a context was given up with {left} in it")

    def takes_batches(self, gpu: int) -> bool:
        self.begin("takes_batches", needs_gpu=False)
        return self._batched

    def open_memory(self, handle: bytes) -> int:
        self.begin("open_memory")
        with self.world.changed:
            found = self.world.allocations.get(handle)
            if found is None or not found.owner.alive or found.freed:
                raise CudaError(1, "CUDA_ERROR_INVALID_VALUE", "open_memory")
            if found.owner is self.own_process:
                raise CudaError(201, "CUDA_ERROR_INVALID_CONTEXT", "open_memory")
            if found in self.mapped():
                self.wrong("an allocation was mapped twice")
            if found.gpu != self.current:
                self.wrong("memory of one GPU was mapped on another")
            found.mapped_count += 1
            address = self.reserve(found.view.size)
            return self.put(address, Mapped(found, address))

    def close_memory(self, address: int) -> None:
        self.begin("close_memory")
        with self.world.changed:
            mapped = self.take(address, Mapped)
            if mapped.allocation.gpu != self.current:
                self.wrong("memory of one GPU was unmapped on another")
            if self.world.touched(mapped):
                self.wrong("memory was unmapped while a copy was to touch it")
            mapped.allocation.mapped_count -= 1

    def memory_bytes(self, address: int) -> int | None:
        self.begin("memory_bytes")
        size_bytes = self.find(address, Mapped).allocation.view.size
        return size_bytes if self.tells_sizes else None

    def create_stream(self) -> int:
        self.begin("create_stream")
        with self.world.changed:
            stream = Stream(self.current)
            self.world.streams.append(stream)
            return self.put(self.reserve(), stream)

    def destroy_stream(self, stream: int) -> None:
        self.begin("destroy_stream")
        with self.world.changed:
            found = self.take(stream, Stream)
            if found.queue:
                self.wrong("a stream was destroyed with work on it")
            self.world.streams.remove(found)

    def wait_stream(self, stream: int) -> None:
        self.begin("wait_stream")
        found = self.find(stream, Stream)
        self.world.go_on_until(lambda: not found.queue)
        self.fail_if_lost("wait_stream")

    def copy_batch(self, batch: Batch, stream: int) -> None:
        self.begin("copy_batch")
        if not self._batched:
            self.wrong("a batch was given to a driver that takes none")
        columns = (batch.device, batch.host, batch.size)
        copies = list(zip(*(column.tolist() for column in columns), strict=True))
        with self.world.changed:
            self.world.random.shuffle(copies)
        refusal = self._refusal
        issued = copies if refusal is None else copies[: refusal[1]]
        self._copy(batch.direction, issued, stream, may_read_early=True)
        if refusal is not None:
            raise refusal[0]

    @contextmanager
    def refusing_batches(self, code: int, issued: int) -> Iterator[None]:
        """Batches are refused while the block runs, when some of their copies are queued already.

        Args:
            code: what is said.
            issued: how many copies of each are queued.
        """
        self._refusal = CudaError(code, "CUDA_ERROR_SOME", "copy_batch"), issued
        try:
            yield
        finally:
            self._refusal = None

    def lose(self, gpu: int) -> None:
        """The context of a GPU is gone: what was on its way is not, and every call fails."""
        with self.world.changed:
            self._lost.add(gpu)
            for stream in self.all(Stream):
                if stream.gpu == gpu:
                    stream.queue.clear()
                    stream.done_count = stream.queued_count
            self.world.changed.notify_all()

    def copy_rows(self, rows: Rows, stream: int) -> None:
        self.begin("copy_rows")
        copies, locked = [], self.all(Locked)
        for i in range(len(rows)):
            pitch, host_pitch, width = (
                int(column[i]) for column in (rows.device_pitch, rows.host_pitch, rows.width)
            )
            if min(pitch, host_pitch) < width:
                self.wrong("rows overlap")
            device, host, height = int(rows.device[i]), int(rows.host[i]), int(rows.height[i])
            self.piece(locked, host, (height - 1) * host_pitch + width)
            copies += [(device + r * pitch, host + r * host_pitch, width) for r in range(height)]
        self._copy(rows.direction, copies, stream, may_read_early=False)

    def create_event(self) -> int:
        self.begin("create_event")
        with self.world.changed:
            return self.put(self.reserve(), Event(self, self.current))

    def destroy_event(self, event: int) -> None:
        self.begin("destroy_event")
        found = self.take(event, Event)
        if found.owner is self:
            found.destroyed = True

    def record_event(self, event: int, stream: int) -> None:
        self.begin("record_event")
        found, on = self.find(event, Event), self.find(stream, Stream)
        if not found.gpu == on.gpu == self.current:
            self.wrong("the event, its stream and the thread are not of one GPU")
        self.world.record(found, on)

    def wait_event(self, event: int) -> None:
        self.begin("wait_event")
        found = self.find(event, Event)
        with self.watched():
            self.world.go_on_until(found.is_reached)
        self.fail_if_lost("wait_event")

    def open_event(self, handle: bytes) -> int:
        self.begin("open_event")
        with self.world.changed:
            found = self.world.events.get(handle)
            if found is None or found.destroyed:
                raise CudaError(400, "CUDA_ERROR_INVALID_HANDLE", "open_event")
            return self.put(self.reserve(), found)

    def event_reached(self, event: int) -> bool:
        self.begin("event_reached")
        found = self.find(event, Event)
        with self.watched(), self.world.changed:
            if self.world.random.random() < 0.5:
                self.world.step()
            return found.is_reached()

    def lock_pages(self, address: int, size_bytes: int) -> None:
        self.begin("lock_pages")
        with self.world.changed:
            if any(locked.has(address, 1) for locked in self.all(Locked)):
                self.wrong("memory was page-locked twice")
            self.put(address, Locked(address, size_bytes))

    def unlock_pages(self, address: int) -> None:
        self.begin("unlock_pages")
        with self.world.changed:
            if self.world.touched(self.take(address, Locked)):
                self.wrong("memory was unlocked while a copy was to touch it")

    def _copy(
        self, direction: Direction, copies: Copies, stream: int, *, may_read_early: bool
    ) -> None:
        """Queue copies as one piece of work, whose sources in host memory may be read at once."""
        found, mapped, locked = self.find(stream, Stream), self.all(Mapped), self.all(Locked)
        if found.gpu != self.gpu:
            self.wrong("the stream of a copy is not of the current GPU")
        with self.world.changed:
            moves: list[tuple[Bytes, Bytes]] = []
            touches: set[object] = set()
            for device, host, size_bytes in copies:
                there = self.mapping(mapped, device, size_bytes)
                touches |= {there, self.piece(locked, host, size_bytes)}
                gpu, pool = there.at(device, size_bytes), host_bytes(host, size_bytes)
                moves.append((pool, gpu) if direction is Direction.STORE else (gpu, pool))
            early = may_read_early and direction is Direction.LOAD
            if early and self.world.random.random() < 0.5:
                moves = [(target, source.copy()) for target, source in moves]
            self.world.add(found, Work(lambda: move(moves), frozenset(touches)))
