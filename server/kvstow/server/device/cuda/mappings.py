"""Allocations of engines that are mapped on one GPU: each once, counted by the regions that lie in it.

Several tensors of an engine may be cut from one allocation; their regions share its mapping. It is named by the session
and the handle, never by its address. A handle says which process exported it in numbers that another process, after a
restart in a container, may have again, so a mapping is never shared between sessions: while one has an allocation
mapped, another that names the same handle is told to come later. An engine that opens its session anew, over the memory
it had, gets it as soon as the copies of its old session have ended.

For the GPU's control thread alone.
"""

from dataclasses import dataclass, field

from kvstow.server.device.base import DeviceBusyError, DeviceError

from .driver import (
    INVALID_CONTEXT,
    INVALID_HANDLE,
    INVALID_VALUE,
    MAP_FAILED,
    NOT_SUPPORTED,
    OPERATING_SYSTEM,
    OUT_OF_MEMORY,
    UNKNOWN,
    CudaError,
    Driver,
)

NAMESPACES = (
    "engine and daemon must share the IPC and the PID namespace (hostIPC and hostPID, or --ipc and"
    " --pid in a container), and the engine must still live"
)
_VIRTUAL = (
    "memory of the virtual-memory API cannot be exported this way: with torch, unset"
    " expandable_segments in PYTORCH_CUDA_ALLOC_CONF"
)
_HINTS = {
    INVALID_VALUE: f"{NAMESPACES}; {_VIRTUAL}",
    INVALID_HANDLE: f"{NAMESPACES}; {_VIRTUAL}",
    MAP_FAILED: NAMESPACES,
    OPERATING_SYSTEM: NAMESPACES,
    NOT_SUPPORTED: _VIRTUAL,
    INVALID_CONTEXT: "this process exported it itself: the daemon must run in a process of its own",
    OUT_OF_MEMORY: "the GPU has no memory left for the daemon's mappings",
}
"""Which setting an error most likely means."""


@dataclass(slots=True, eq=False)
class Mapping:
    """One allocation, mapped.

    Args:
        session: whose it is.
        handle: the engine's name for it.
        address: where it begins here.
        size_bytes: its length; None if the driver does not tell.
        number: tells it from all others of its GPU, also from those to come.
        region_count: regions that lie in it.
    """

    session: int
    handle: bytes
    address: int
    size_bytes: int | None
    number: int
    region_count: int = 0


@dataclass(slots=True)
class Mappings:
    """All of one GPU.

    Args:
        driver: makes the calls.
    """

    driver: Driver
    _open: dict[bytes, Mapping] = field(default_factory=dict)
    _opened_count: int = 0

    def take(self, session: int, handle: bytes, end: int) -> Mapping:
        """Map an allocation for one region more.

        Args:
            session: for whom.
            handle: which.
            end: where the region ends in it.

        Raises:
            DeviceBusyError: another session has it mapped.
            DeviceError: it cannot be mapped, or is shorter.
        """
        mapping = self._open.get(handle)
        if mapping is None:
            mapping = self._map(session, handle)
        elif mapping.session != session:
            raise DeviceBusyError(
                f"the same memory is mapped for session {mapping.session}, until that has detached it or has ended"
                " and its last copy with it; a session needs memory of its own"
            )
        mapping.region_count += 1
        if mapping.size_bytes is not None and end > mapping.size_bytes:
            self.give_back(mapping)
            raise DeviceError(
                f"the allocation has {mapping.size_bytes} bytes, the region ends at {end}"
            )
        return mapping

    def give_back(self, mapping: Mapping) -> None:
        """A region is closed; the last one unmaps the allocation.

        Raises:
            CudaError: the driver does not unmap it; it is forgotten all the same.
        """
        mapping.region_count -= 1
        if not mapping.region_count:
            del self._open[mapping.handle]
            self.driver.close_memory(mapping.address)

    def _map(self, session: int, handle: bytes) -> Mapping:
        try:
            address = self.driver.open_memory(handle)
        except CudaError as error:
            if error.ends_context and error.code != UNKNOWN:  # which may be said of a handle
                raise
            hint = _HINTS.get(error.code, NAMESPACES)
            raise DeviceError(f"the allocation cannot be mapped: {error}; {hint}") from error
        self._opened_count += 1
        size_bytes = self.driver.memory_bytes(address)
        mapping = Mapping(session, handle, address, size_bytes, self._opened_count)
        self._open[handle] = mapping
        return mapping
