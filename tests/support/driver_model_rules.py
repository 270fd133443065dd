"""What every call of the model of the CUDA driver is held to, and what is open in it."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from kvstow.server.device.cuda.driver import CudaError, GpuInfo

from .driver_model_world import Allocation, Bytes, Event, ModelError, Stream

OWN_THREADS = "gpu-"
"""What the names of the device's threads begin with."""

_GAP = 1 << 30
"""What lies between two objects in the addresses of the daemon."""


@dataclass(frozen=True, eq=False)
class Mapped:
    """An allocation of an engine in the daemon's addresses."""

    allocation: Allocation
    address: int

    def has(self, address: int, size_bytes: int) -> bool:
        """Whether these bytes lie in it."""
        start = address - self.address
        return 0 <= start and start + size_bytes <= self.allocation.view.size

    def at(self, address: int, size_bytes: int) -> Bytes:
        """Some of its bytes."""
        start = address - self.address
        return self.allocation.view[start : start + size_bytes]


@dataclass(frozen=True, eq=False)
class Locked:
    """Page-locked host memory."""

    address: int
    size_bytes: int

    def has(self, address: int, size_bytes: int) -> bool:
        """Whether these bytes lie in it."""
        start = address - self.address
        return 0 <= start and start + size_bytes <= self.size_bytes


@dataclass(frozen=True, eq=False)
class Kernel:
    """The kernel that copies, in the context of one GPU."""

    gpu: int


Thing = Mapped | Locked | Stream | Event | GpuInfo | Kernel
ThingT = TypeVar("ThingT", Mapped, Locked, Stream, Event, GpuInfo, Kernel)


class Rules:
    """Who may call, what a call finds, and what a test wants of it.

    Args:
        any_thread: calls are welcome from every thread.

    Attributes:
        violations: what raised a `ModelError`.
        calls: how often each call was made.
        holds_lock: tells whether the calling thread holds the daemon's lock.
    """

    def __init__(self, *, any_thread: bool) -> None:
        self.violations: list[str] = []
        self.calls: Counter[str] = Counter()
        self.holds_lock: Callable[[], bool] = lambda: False
        self._any_thread = any_thread
        self._thread = threading.local()
        self._errors: dict[str, tuple[CudaError, int]] = {}
        self._hung: set[int] = set()
        self._lost: set[int] = set()
        self._hanging: dict[tuple[str, int], threading.Event] = {}
        self._things: dict[int, Thing] = {}
        self._things_lock = threading.Lock()
        self._next = 1 << 40

    @contextmanager
    def failing(
        self, call: str, code: int, name: str = "CUDA_ERROR_SOME", after: int = 0
    ) -> Iterator[None]:
        """A call fails while the block runs, but not the first `after` times."""
        self._errors[call] = (CudaError(code, name, call), self.calls[call] + after)
        try:
            yield
        finally:
            del self._errors[call]

    @contextmanager
    def hanging(self, call: str, gpu: int = 0) -> Iterator[None]:
        """A call for one GPU does not return before the block ends."""
        released = self._hanging[call, gpu] = threading.Event()
        try:
            yield
        finally:
            del self._hanging[call, gpu]
            released.set()

    def check(self) -> None:
        """Nothing was done that may not be done."""
        assert not self.violations, self.violations

    def check_given_back(self) -> None:
        """Nothing is open any more, but in a lost context, and nothing was done that may not be done."""
        self.check()
        assert self._lost or not self._things, f"still there: {list(self._things.values())}"

    def streams(self) -> list[Stream]:
        """The daemon's."""
        return self.all(Stream)

    def contexts(self) -> list[int]:
        """Numbers of the GPUs that have a context."""
        return [info.number for info in self.all(GpuInfo)]

    def in_context(self, gpu: int) -> list[Thing]:
        """What goes with the context of a GPU; what is page-locked is of all contexts."""
        made: list[Stream | Event | Kernel] = [*self.all(Stream), *self.all(Event)]
        made += self.all(Kernel)
        mapped = [one for one in self.all(Mapped) if one.allocation.gpu == gpu]
        return [*(one for one in made if one.gpu == gpu), *mapped]

    def mapped(self) -> list[Allocation]:
        """What is mapped."""
        return [mapped.allocation for mapped in self.all(Mapped)]

    def locked_bytes(self) -> int:
        """How much host memory is page-locked."""
        return sum(locked.size_bytes for locked in self.all(Locked))

    def begin(self, call: str, *, needs_gpu: bool = True) -> None:
        """A call begins."""
        with self._things_lock:
            self.calls[call] += 1
        name = threading.current_thread().name
        if not self._any_thread and not name.startswith(OWN_THREADS):
            self.wrong(f"{call} was called by thread {name}")
        if self.holds_lock():
            self.wrong(f"{call} was called under the daemon's lock")
        if needs_gpu and self.gpu is None:
            self.wrong(f"{call} was called in thread {name}, in which no GPU is current")
        hanging = None if self.gpu is None else self._hanging.get((call, self.gpu))
        if hanging is not None:
            self._hung.add(threading.get_ident())
            hanging.wait()
            self._hung.remove(threading.get_ident())
        self.fail_if_lost(call)
        error, last_good = self._errors.get(call, (None, 0))
        if error is not None and self.calls[call] > last_good:
            raise error

    def fail_if_lost(self, call: str) -> None:
        """A call fails in a context that is gone, also one that was waiting when it went."""
        if self.gpu in self._lost:
            raise CudaError(700, "CUDA_ERROR_ILLEGAL_ADDRESS", call)

    @property
    def calls_waiting(self) -> int:
        """How many calls hang."""
        return len(self._hung)

    @property
    def gpu(self) -> int | None:
        """The current GPU of the calling thread."""
        gpus: dict[str, int] = vars(self._thread)
        return gpus.get("gpu")

    @gpu.setter
    def gpu(self, number: int) -> None:
        self._thread.gpu = number

    @property
    def current(self) -> int:
        """The current GPU, where there is one."""
        assert self.gpu is not None
        return self.gpu

    def wrong(self, what: str) -> NoReturn:
        """Something was done that may not be done."""
        self.violations.append(what)
        raise ModelError(what)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Remember what others find wrong."""
        try:
            yield
        except ModelError as error:
            self.violations.append(str(error))
            raise

    def reserve(self, size_bytes: int = 0) -> int:
        """A number that nothing has, with so many addresses behind it."""
        with self._things_lock:
            number = self._next
            self._next += size_bytes + _GAP
        return number

    def put(self, number: int, thing: Thing) -> int:
        """Something is there from now on under a number, which is returned."""
        with self._things_lock:
            self._things[number] = thing
        return number

    def find(self, number: int, kind: type[ThingT]) -> ThingT:
        """What has a number."""
        thing = self._things.get(number)
        if not isinstance(thing, kind):
            self.wrong(f"there is no {kind.__name__} {number}")
        return thing

    def take(self, number: int, kind: type[ThingT]) -> ThingT:
        """The same; it is not there any more."""
        thing = self.find(number, kind)
        with self._things_lock:
            del self._things[number]
        return thing

    def all(self, kind: type[ThingT]) -> list[ThingT]:
        """Everything of a kind."""
        with self._things_lock:
            return [thing for thing in self._things.values() if isinstance(thing, kind)]
