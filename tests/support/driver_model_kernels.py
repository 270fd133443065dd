"""What copies may touch, and the kernel that copies: part of the model of the CUDA driver."""

import ctypes
from collections.abc import Sequence

import numpy as np

from .driver_model_rules import Kernel, Locked, Mapped, Rules
from .driver_model_world import Bytes, ModelError, Stream, Work, World


class Kernels(Rules):
    """The calls for the kernel.

    Each of these is wrong: to run a kernel that was unloaded, or in a context that is not its own; to tell it of memory that
    no copy may touch, or of two places of which not one is on its GPU and one in page-locked memory; to change what it was
    told before the run has ended.

    Args:
        world: the machine.
        any_thread: calls are welcome from every thread.

    Attributes:
        pinned: host memory of copies is to be page-locked.
        reaches: whether GPUs have page-locked memory at its addresses in the host.
    """

    def __init__(self, world: World, *, any_thread: bool) -> None:
        super().__init__(any_thread=any_thread)
        self.world = world
        self.pinned = True
        self.reaches = True

    def reaches_locked_memory(self, gpu: int) -> bool:
        self.begin("reaches_locked_memory", needs_gpu=False)
        return self.reaches

    def load_kernel(self) -> int:
        self.begin("load_kernel")
        return self.put(self.reserve(), Kernel(self.current))

    def unload_kernel(self, kernel: int) -> None:
        self.begin("unload_kernel")
        with self.world.changed:
            if self.world.touched(self.take(kernel, Kernel)):
                self.wrong("the kernel was unloaded while it was to run")

    def run_kernel(self, kernel: int, orders: int, count: int, stream: int) -> None:
        self.begin("run_kernel")
        found, on = self.find(kernel, Kernel), self.find(stream, Stream)
        if not found.gpu == on.gpu == self.current:
            self.wrong("the kernel, its stream and the thread are not of one GPU")
        with self.world.changed:
            touches: set[object] = {found, self.piece(self.all(Locked), orders, 24 * count)}
            told = host_bytes(orders, 24 * count)
            remembered = told.copy()
            copies = []
            for source, target, size_bytes in told.view(np.int64).reshape(3, count).T.tolist():
                places = [self._place(at, size_bytes) for at in (target, source)]
                if {type(owner) for owner, _ in places} != {Mapped, Locked}:
                    self.wrong("the kernel does not copy between its GPU and the host")
                touches |= {owner for owner, _ in places}
                copies.append((places[0][1], places[1][1]))

            def run() -> None:
                with self.watched():
                    if not np.array_equal(told, remembered):
                        raise ModelError("what the kernel was told has changed before it ran")
                move(copies)

            self.world.random.shuffle(copies)
            self.world.add(on, Work(run, frozenset(touches)))

    def mapping(self, mapped: list[Mapped], address: int, size_bytes: int) -> Mapped:
        """The mapping that a copy lies in."""
        found = next((one for one in mapped if one.has(address, size_bytes)), None)
        if found is None:
            self.wrong("a copy lies outside every mapping")
        if found.allocation.gpu != self.gpu:
            self.wrong("a copy touches the memory of another GPU")
        return found

    def piece(self, locked: list[Locked], address: int, size_bytes: int) -> Locked | None:
        """The page-locked piece of host memory that a copy lies in."""
        found = next((one for one in locked if one.has(address, size_bytes)), None)
        if self.pinned and found is None:
            self.wrong("a copy does not lie in one page-locked piece of host memory")
        return found

    def _place(self, address: int, size_bytes: int) -> tuple[Mapped | Locked, Bytes]:
        """What lies at an address of the GPU's, and its bytes."""
        locked = next((one for one in self.all(Locked) if one.has(address, size_bytes)), None)
        if locked is not None:
            return locked, host_bytes(address, size_bytes)
        there = self.mapping(self.all(Mapped), address, size_bytes)
        return there, there.at(address, size_bytes)


def host_bytes(address: int, size_bytes: int) -> Bytes:
    """Memory of this process."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size_bytes).from_address(address))


def move(moves: Sequence[tuple[Bytes, Bytes]]) -> None:
    """Copy each (target, source)."""
    for target, source in moves:
        target[:] = source
