"""Requests become the core's values.

Decided here: whether a message is well formed: required fields, ranges that protect the daemon,
lengths of packed keys. Not decided here: whether the books allow what it asks (the ledger). Every
function is pure and total: whatever the bytes on the wire were, it returns a value or raises
`InvalidRequest` naming the field. May be called from any thread.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kvstow.server.core.errors import InvalidRequest
from kvstow.server.core.requests import GroupMemory, Process, RankMemory
from kvstow.server.core.spans import Segment
from kvstow.server.core.types import (
    Group,
    GroupBlocks,
    GroupKeys,
    Hold,
    Identity,
    KeyScheme,
    Layout,
    LeaseId,
    TransferId,
    TransferKind,
)
from kvstow.server.device.handles import (
    CudaEventHandle,
    CudaHandle,
    Handle,
    RankHandles,
    SharedMemoryHandle,
)
from kvstow.v1 import cache_pb2, identity_pb2, transfer_pb2

MAX_TEXT = 1024
MAX_WORLD_SIZE = 1024
MAX_GROUPS = 64
MAX_SEGMENTS = 4096
MAX_REGIONS = 4096
"""Each is mapped, and the kernel gives a process some 65,000 mappings for everything."""

MAX_FENCES = 4096
CUDA_HANDLE_BYTES = 64
"""Of both kinds of handle that CUDA gives to other processes."""

MAX_KEY_BYTES = 64
MAX_FINGERPRINT_BYTES = 64
MAX_BYTES = 2**63 - 1
"""Offsets are computed as signed 64-bit integers."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HOLDS: dict[int, Hold] = {
    cache_pb2.HOLD_UNSPECIFIED: Hold.NONE,
    cache_pb2.HOLD_NONE: Hold.NONE,
    cache_pb2.HOLD_PREFIX: Hold.PREFIX,
    cache_pb2.HOLD_READY: Hold.READY,
}
_KINDS: dict[int, TransferKind] = {
    transfer_pb2.TRANSFER_KIND_STORE: TransferKind.STORE,
    transfer_pb2.TRANSFER_KIND_LOAD: TransferKind.LOAD,
}


def identity(message: identity_pb2.Identity) -> Identity:
    """The identity of a space."""
    return Identity(
        tenant=text(message.tenant, "identity.tenant"),
        model=_required(message.model, "identity.model"),
        weights_version=text(message.weights_version, "identity.weights_version"),
        layout=_layout(message.layout),
        key_scheme=_key_scheme(message.key_scheme),
    )


def process(
    request: cache_pb2.OpenSessionRequest | cache_pb2.AttachMemoryRequest,
) -> Process | None:
    """The process to watch, None if the request names none."""
    if not request.HasField("process"):
        return None
    named = request.process
    if not 0 < named.pid < 2**31:
        raise InvalidRequest(f"{named.pid} is not a process id", field="process.pid")
    return Process(named.pid, named.pid_namespace, named.start_time_ticks)


def rank_memory(
    request: cache_pb2.AttachMemoryRequest, layout: Layout, beneath: Path | None = None
) -> RankHandles:
    """The memory of a rank; the layout of its session says how long each segment is.

    Args:
        beneath: directory in which files have to lie; None: anywhere.
    """
    if len(request.groups) != len(layout.groups):
        raise InvalidRequest(
            f"{len(request.groups)} groups of memory, the layout has {len(layout.groups)}",
            field="groups",
        )
    _between(len(request.regions), 1, MAX_REGIONS, "number of regions")
    _between(len(request.fences), 0, MAX_FENCES, "number of fences")
    handles = tuple(_handle(region, at, beneath) for at, region in enumerate(request.regions))
    groups = zip(request.groups, layout.groups, strict=True)
    return RankMemory(
        handles,
        tuple(_group_memory(memory, group, len(handles)) for memory, group in groups),
        tuple(_fence(event, at) for at, event in enumerate(request.fences)),
    )


def group_keys(groups: Sequence[cache_pb2.GroupKeys], key_bytes: int) -> list[GroupKeys]:
    """The keys of a lookup, unpacked."""
    _between(len(groups), 0, MAX_GROUPS, "number of groups")
    return [GroupKeys(group.group, _unpack(group.keys, key_bytes)) for group in groups]


def keys(packed: bytes, key_bytes: int) -> list[bytes]:
    """The keys of one group, unpacked."""
    return _unpack(packed, key_bytes)


def group_blocks(groups: Sequence[cache_pb2.GroupBlocks], key_bytes: int) -> list[GroupBlocks]:
    """The blocks of a transfer, keys unpacked."""
    _between(len(groups), 0, MAX_GROUPS, "number of groups")
    return [
        GroupBlocks(group.group, _unpack(group.keys, key_bytes), list(group.blocks))
        for group in groups
    ]


def fence(request: cache_pb2.StoreRequest | cache_pb2.LoadRequest) -> int | None:
    """Which fence of its ring each rank's copy waits for, None for none."""
    return request.fence if request.HasField("fence") else None


def hold(number: int) -> Hold:
    """What to put under a lease."""
    if number not in _HOLDS:
        raise InvalidRequest(f"{number} is not a hold", field="hold")
    return _HOLDS[number]


def kind(number: int) -> TransferKind | None:
    """A direction, None for both."""
    if number == transfer_pb2.TRANSFER_KIND_UNSPECIFIED:
        return None
    if number not in _KINDS:
        raise InvalidRequest(f"{number} is not a kind of transfer", field="kind")
    return _KINDS[number]


def lease(number: int) -> LeaseId | None:
    """A lease, None if the request names none."""
    return LeaseId(number) if number else None


def transfer(number: int) -> TransferId:
    """The client's id of a new transfer."""
    if not number:
        raise InvalidRequest("transfer_id is missing; ids begin at 1", field="transfer_id")
    return TransferId(number)


def text(value: str, field: str) -> str:
    """A text of bounded length that can be printed, for names that are kept, logged and listed."""
    if len(value) > MAX_TEXT:
        raise InvalidRequest(f"{field} has more than {MAX_TEXT} characters", field=field)
    if not value.isprintable():
        raise InvalidRequest(f"{field} has characters that cannot be printed", field=field)
    return value


def seconds(value: float, field: str) -> float:
    """A span of time."""
    if not (math.isfinite(value) and value >= 0):
        raise InvalidRequest(f"{field} is not a span of time: {value}", field=field)
    return value


def capped_seconds(value: float, field: str, limit: float) -> float:
    """A span of time that is at most `limit`; zero asks for the limit."""
    return min(seconds(value, field), limit) or limit


def _unpack(keys: bytes, key_bytes: int) -> list[bytes]:
    """Cut packed keys apart; the dtype is V (raw), not S, which would strip trailing zeros."""
    if len(keys) % key_bytes:
        raise InvalidRequest(
            f"{len(keys)} bytes of keys are not a multiple of {key_bytes}", field="keys"
        )
    unpacked: list[bytes] = np.frombuffer(keys, f"V{key_bytes}").tolist()
    return unpacked


def _layout(message: identity_pb2.Layout) -> Layout:
    return Layout(
        dtype=_required(message.dtype, "layout.dtype"),
        block_tokens=_between(message.block_tokens, 1, MAX_BYTES, "layout.block_tokens"),
        world_size=_between(message.world_size, 1, MAX_WORLD_SIZE, "layout.world_size"),
        order=text(message.order, "layout.order"),
        groups=_groups(message.groups),
    )


def _groups(messages: Sequence[identity_pb2.Group]) -> tuple[Group, ...]:
    _between(len(messages), 1, MAX_GROUPS, "number of layout.groups")
    for message in messages:
        _between(len(message.segment_bytes), 1, MAX_SEGMENTS, "number of group.segment_bytes")
        _between(min(message.segment_bytes), 1, MAX_BYTES, "group.segment_bytes")
        _between(sum(message.segment_bytes), 1, MAX_BYTES, "sum of group.segment_bytes")
    return tuple(Group(tuple(group.segment_bytes), group.replicated) for group in messages)


def _key_scheme(message: identity_pb2.KeyScheme) -> KeyScheme:
    _between(len(message.fingerprint), 0, MAX_FINGERPRINT_BYTES, "length of fingerprint")
    return KeyScheme(
        hash_name=_required(message.hash_name, "key_scheme.hash_name"),
        key_bytes=_between(message.key_bytes, 1, MAX_KEY_BYTES, "key_scheme.key_bytes"),
        fingerprint=message.fingerprint,
    )


def _handle(region: cache_pb2.Region, at: int, beneath: Path | None) -> Handle:
    match region.WhichOneof("handle"):
        case "shared_memory":
            return _shared_memory(region.shared_memory, at, beneath)
        case "cuda_memory":
            return _cuda_memory(region.cuda_memory, at)
    known = "name a file, or memory of cudaMalloc by CUDA IPC; that of the virtual-memory API is not taken"
    raise InvalidRequest(f"region {at} has no handle known here: {known}", field="regions.handle")


def _shared_memory(
    memory: cache_pb2.SharedMemory, at: int, beneath: Path | None
) -> SharedMemoryHandle:
    if not memory.path.startswith("/") or "\0" in memory.path:
        raise InvalidRequest(f"the path of region {at} is not absolute", field="regions.path")
    _between(memory.offset_bytes + memory.size_bytes, 1, MAX_BYTES, f"end of region {at}")
    _between(memory.size_bytes, 1, MAX_BYTES, "regions.size_bytes")
    return SharedMemoryHandle(memory.path, memory.offset_bytes, memory.size_bytes, beneath)


def _cuda_memory(memory: cache_pb2.CudaMemory, at: int) -> CudaHandle:
    gpu_uuid = _uuid(memory.gpu_uuid, f"region {at}", "regions.gpu_uuid")
    _between(len(memory.allocation), CUDA_HANDLE_BYTES, CUDA_HANDLE_BYTES, "length of allocation")
    _between(memory.offset_bytes + memory.size_bytes, 1, MAX_BYTES, f"end of region {at}")
    _between(memory.size_bytes, 1, MAX_BYTES, "regions.size_bytes")
    return CudaHandle(gpu_uuid, memory.allocation, memory.offset_bytes, memory.size_bytes)


def _fence(event: cache_pb2.CudaEvent, at: int) -> CudaEventHandle:
    gpu_uuid = _uuid(event.gpu_uuid, f"fence {at}", "fences.gpu_uuid")
    _between(len(event.event), CUDA_HANDLE_BYTES, CUDA_HANDLE_BYTES, "length of fences.event")
    return CudaEventHandle(gpu_uuid, event.event)


def _uuid(value: str, of: str, field: str) -> str:
    if not _UUID.fullmatch(value):
        raise InvalidRequest(
            f"the GPU of {of} is not a UUID in lower case without a prefix", field=field
        )
    return value


def _group_memory(message: cache_pb2.GroupMemory, group: Group, region_count: int) -> GroupMemory:
    if len(message.segments) != len(group.segment_bytes):
        raise InvalidRequest(
            f"{len(message.segments)} segments of memory, the group has"
            f" {len(group.segment_bytes)}",
            field="groups.segments",
        )
    block_count = _between(message.block_count, 1, MAX_BYTES, "groups.block_count")
    segments = []
    for segment, size_bytes in zip(message.segments, group.segment_bytes, strict=True):
        _between(segment.region, 0, region_count - 1, "segments.region")
        _between(segment.stride_bytes, size_bytes, MAX_BYTES, "segments.stride_bytes")
        end = segment.offset_bytes + (block_count - 1) * segment.stride_bytes + size_bytes
        _between(end, 1, MAX_BYTES, "end of the segments")
        segments.append(
            Segment(segment.region, segment.offset_bytes, segment.stride_bytes, size_bytes)
        )
    return GroupMemory(block_count, tuple(segments))


def _required(value: str, field: str) -> str:
    if not value:
        raise InvalidRequest(f"{field} is missing", field=field)
    return text(value, field)


def _between(value: int, least: int, most: int, field: str) -> int:
    if not least <= value <= most:
        raise InvalidRequest(f"{field} is {value}, not {least} to {most}", field=field)
    return value
