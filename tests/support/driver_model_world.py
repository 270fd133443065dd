"""GPUs as they are for several processes at once: memory, streams, events. Part of the model of the CUDA driver.

Work that is queued on a stream is not done before somebody waits or asks: then a seed decides which stream goes on. So
what no fence orders happens in this order today and in that one tomorrow, and a copy that did not wait for the kernel before
it shows as wrong bytes.

Rules that CUDA leaves undefined are errors here: see `ModelError`.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kvstow.server.device.handles import CudaEventHandle, CudaHandle

Bytes = npt.NDArray[np.uint8]

HANDLE_BYTES = 64


class ModelError(AssertionError):
    """CUDA was used in a way that it does not allow, or whose outcome it leaves open."""


@dataclass(eq=False)
class Work:
    """One piece of work on a stream.

    Args:
        run: does it.
        touches: mappings and page-locked memory that must still be there when it is done.
    """

    run: Callable[[], None]
    touches: frozenset[object] = frozenset()


@dataclass(eq=False)
class Stream:
    """Work in order.

    Attributes:
        queue: what is not done yet.
        queued_count, done_count: how much was queued and done in all.
        held: nothing of it is done at present.
    """

    gpu: int
    queue: deque[Work] = field(default_factory=deque)
    queued_count: int = 0
    done_count: int = 0
    held: bool = False


@dataclass(eq=False)
class Event:
    """Stands for the work that was on a stream when it was recorded last."""

    owner: object
    gpu: int
    stream: Stream | None = None
    count: int = 0
    destroyed: bool = False

    def is_reached(self) -> bool:
        """Whether that work is done."""
        if self.destroyed:
            raise ModelError("an event was used that is destroyed")
        if self.stream is None:
            raise ModelError("an event was asked for that was never recorded")
        return self.stream.done_count >= self.count


@dataclass(eq=False)
class Allocation:
    """Memory on a GPU."""

    owner: "EngineProcess"
    gpu: int
    handle: bytes
    view: Bytes
    freed: bool = False
    mapped_count: int = 0


class World:
    """Everything that all processes of a machine share.

    Args:
        gpu_count: how many GPUs there are.
        seed: decides the order of what nothing orders.
    """

    def __init__(self, gpu_count: int = 1, seed: int = 0) -> None:
        self.uuids = [f"00000000-0000-0000-0000-{number:012x}" for number in range(gpu_count)]
        self.changed = threading.Condition(threading.RLock())
        self.random = random.Random(seed)
        self.streams: list[Stream] = []
        self.allocations: dict[bytes, Allocation] = {}
        self.events: dict[bytes, Event] = {}
        self._handle_count = 0

    def new_handle(self) -> bytes:
        """64 bytes that no other memory or event has."""
        self._handle_count += 1
        return self._handle_count.to_bytes(HANDLE_BYTES, "little")

    def add(self, stream: Stream, work: Work) -> None:
        """Queue work."""
        with self.changed:
            stream.queue.append(work)
            stream.queued_count += 1
            self.changed.notify_all()

    def record(self, event: Event, stream: Stream) -> None:
        """Let an event stand for what is on a stream now."""
        with self.changed:
            event.stream, event.count = stream, stream.queued_count

    def step(self) -> bool:
        """Let some stream go on by one piece of work; False if none can. Under the lock."""
        ready = [stream for stream in self.streams if stream.queue and not stream.held]
        if not ready:
            return False
        stream = self.random.choice(ready)
        work = stream.queue.popleft()
        try:
            work.run()
        finally:
            stream.done_count += 1
            self.changed.notify_all()
        return True

    def go_on_until(self, reached: Callable[[], bool]) -> None:
        """Let streams go on until it is so."""
        with self.changed:
            while not reached():
                if not self.step():
                    self.changed.wait()

    def finish(self) -> None:
        """Do all work that can be done."""
        with self.changed:
            while self.step():
                pass

    @contextmanager
    def held(self, *streams: Stream) -> Iterator[None]:
        """Nothing of these streams is done while the block runs."""
        with self.changed:
            for stream in streams:
                stream.held = True
        try:
            yield
        finally:
            with self.changed:
                for stream in streams:
                    stream.held = False
                self.changed.notify_all()

    def touched(self, what: object) -> bool:
        """Whether queued work needs this; under the lock."""
        return any(what in work.touches for stream in self.streams for work in stream.queue)

    def used_bytes(self, gpu: int) -> int:
        """Memory of a GPU that is not free: what its owner has, and what others have mapped still."""
        with self.changed:
            return sum(
                found.view.size
                for found in self.allocations.values()
                if found.gpu == gpu and (not found.freed or found.mapped_count)
            )


class EngineProcess:
    """A process that exports memory and events.

    Args:
        world: where it runs.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.alive = True
        self._streams: list[Stream] = []

    def allocate(self, size_bytes: int, gpu: int = 0) -> Allocation:
        """Take memory of a GPU."""
        with self.world.changed:
            handle = self.world.new_handle()
            view = np.zeros(size_bytes, dtype=np.uint8)
            allocation = Allocation(self, gpu, handle, view)
            self.world.allocations[handle] = allocation
            return allocation

    def handle(
        self, allocation: Allocation, offset_bytes: int = 0, size_bytes: int | None = None
    ) -> CudaHandle:
        """How a region of it is named to others; the whole without an offset and a size."""
        length = allocation.view.size - offset_bytes if size_bytes is None else size_bytes
        uuid = self.world.uuids[allocation.gpu]
        return CudaHandle(uuid, allocation.handle, offset_bytes, length)

    def free(self, allocation: Allocation) -> None:
        """Give memory back."""
        with self.world.changed:
            if allocation.mapped_count:
                raise ModelError("memory was freed that another process has mapped")
            allocation.freed = True

    def stream(self, gpu: int = 0) -> Stream:
        """Make a stream."""
        with self.world.changed:
            stream = Stream(gpu)
            self._streams.append(stream)
            self.world.streams.append(stream)
            return stream

    def launch(self, stream: Stream, kernel: Callable[[], None], steps: int = 1) -> None:
        """Queue a kernel that takes so many steps and has its effect in the last."""
        for _ in range(steps - 1):
            self.world.add(stream, Work(lambda: None))
        self.world.add(stream, Work(kernel))

    def event(self, gpu: int = 0) -> tuple[Event, CudaEventHandle]:
        """Make an event that other processes may open, and its name for them."""
        with self.world.changed:
            handle = self.world.new_handle()
            event = Event(self, gpu)
            self.world.events[handle] = event
            return event, CudaEventHandle(self.world.uuids[gpu], handle)

    def record(self, event: Event, stream: Stream) -> None:
        """Let an event stand for what is on a stream now."""
        self.world.record(event, stream)

    def synchronize(self, stream: Stream) -> None:
        """Wait until all of a stream is done."""
        self.world.go_on_until(lambda: not stream.queue)

    def kill(self, *, lets_fences_go: bool = False) -> None:
        """End at once: kernels stop where they are; what others have mapped stays theirs.

        Args:
            lets_fences_go: events read as if what they stand for were done, and not as if it never were: CUDA leaves it
                open.
        """
        with self.world.changed:
            self.alive = False
            for stream in self._streams:
                stream.queue.clear()
                if lets_fences_go:
                    stream.done_count = stream.queued_count
            for allocation in self.world.allocations.values():
                allocation.freed = allocation.freed or allocation.owner is self
            self.world.changed.notify_all()
