from kvstow.v1 import identity_pb2 as _identity_pb2
from kvstow.v1 import reset_pb2 as _reset_pb2
from kvstow.v1 import transfer_pb2 as _transfer_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_STATE_UNSPECIFIED: _ClassVar[ServerState]
    SERVER_STATE_STARTING: _ClassVar[ServerState]
    SERVER_STATE_READY: _ClassVar[ServerState]
    SERVER_STATE_DRAINING: _ClassVar[ServerState]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_ENGINE: _ClassVar[Role]
    ROLE_READ_ONLY: _ClassVar[Role]
    ROLE_ADMINISTRATOR: _ClassVar[Role]

class Hold(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOLD_UNSPECIFIED: _ClassVar[Hold]
    HOLD_NONE: _ClassVar[Hold]
    HOLD_PREFIX: _ClassVar[Hold]
    HOLD_READY: _ClassVar[Hold]
SERVER_STATE_UNSPECIFIED: ServerState
SERVER_STATE_STARTING: ServerState
SERVER_STATE_READY: ServerState
SERVER_STATE_DRAINING: ServerState
ROLE_UNSPECIFIED: Role
ROLE_ENGINE: Role
ROLE_READ_ONLY: Role
ROLE_ADMINISTRATOR: Role
HOLD_UNSPECIFIED: Hold
HOLD_NONE: Hold
HOLD_PREFIX: Hold
HOLD_READY: Hold

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "boot_id", "state", "limits", "policy", "uptime_s", "copy_kernel", "unix_time_s", "gpus", "cuda_off", "pinned", "role")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    COPY_KERNEL_FIELD_NUMBER: _ClassVar[int]
    UNIX_TIME_S_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    CUDA_OFF_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    version: str
    boot_id: str
    state: ServerState
    limits: Limits
    policy: str
    uptime_s: float
    copy_kernel: str
    unix_time_s: float
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    cuda_off: str
    pinned: bool
    role: Role
    def __init__(self, version: _Optional[str] = ..., boot_id: _Optional[str] = ..., state: _Optional[_Union[ServerState, str]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., policy: _Optional[str] = ..., uptime_s: _Optional[float] = ..., copy_kernel: _Optional[str] = ..., unix_time_s: _Optional[float] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., cuda_off: _Optional[str] = ..., pinned: bool = ..., role: _Optional[_Union[Role, str]] = ...) -> None: ...

class Gpu(_message.Message):
    __slots__ = ("uuid", "name", "trouble")
    UUID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    name: str
    trouble: str
    def __init__(self, uuid: _Optional[str] = ..., name: _Optional[str] = ..., trouble: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_keys_per_call", "max_lease_ttl_s", "max_deadline_s", "max_transfers_per_session", "extent_bytes", "pool_bytes")
    MAX_KEYS_PER_CALL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASE_TTL_S_FIELD_NUMBER: _ClassVar[int]
    MAX_DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    MAX_TRANSFERS_PER_SESSION_FIELD_NUMBER: _ClassVar[int]
    EXTENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    POOL_BYTES_FIELD_NUMBER: _ClassVar[int]
    max_keys_per_call: int
    max_lease_ttl_s: float
    max_deadline_s: float
    max_transfers_per_session: int
    extent_bytes: int
    pool_bytes: int
    def __init__(self, max_keys_per_call: _Optional[int] = ..., max_lease_ttl_s: _Optional[float] = ..., max_deadline_s: _Optional[float] = ..., max_transfers_per_session: _Optional[int] = ..., extent_bytes: _Optional[int] = ..., pool_bytes: _Optional[int] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("identity", "name", "process")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    identity: _identity_pb2.Identity
    name: str
    process: _identity_pb2.Process
    def __init__(self, identity: _Optional[_Union[_identity_pb2.Identity, _Mapping]] = ..., name: _Optional[str] = ..., process: _Optional[_Union[_identity_pb2.Process, _Mapping]] = ...) -> None: ...

class OpenSessionResponse(_message.Message):
    __slots__ = ("session_id", "boot_id", "space_id", "generation", "grace_s", "slot_bytes")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    SLOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    boot_id: str
    space_id: int
    generation: int
    grace_s: float
    slot_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session_id: _Optional[int] = ..., boot_id: _Optional[str] = ..., space_id: _Optional[int] = ..., generation: _Optional[int] = ..., grace_s: _Optional[float] = ..., slot_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    def __init__(self, session_id: _Optional[int] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttachMemoryRequest(_message.Message):
    __slots__ = ("session_id", "rank", "process", "regions", "groups", "fences")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    FENCES_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    rank: int
    process: _identity_pb2.Process
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    groups: _containers.RepeatedCompositeFieldContainer[GroupMemory]
    fences: _containers.RepeatedCompositeFieldContainer[CudaEvent]
    def __init__(self, session_id: _Optional[int] = ..., rank: _Optional[int] = ..., process: _Optional[_Union[_identity_pb2.Process, _Mapping]] = ..., regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[GroupMemory, _Mapping]]] = ..., fences: _Optional[_Iterable[_Union[CudaEvent, _Mapping]]] = ...) -> None: ...

class Region(_message.Message):
    __slots__ = ("shared_memory", "cuda_memory")
    SHARED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    CUDA_MEMORY_FIELD_NUMBER: _ClassVar[int]
    shared_memory: SharedMemory
    cuda_memory: CudaMemory
    def __init__(self, shared_memory: _Optional[_Union[SharedMemory, _Mapping]] = ..., cuda_memory: _Optional[_Union[CudaMemory, _Mapping]] = ...) -> None: ...

class SharedMemory(_message.Message):
    __slots__ = ("path", "offset_bytes", "size_bytes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    offset_bytes: int
    size_bytes: int
    def __init__(self, path: _Optional[str] = ..., offset_bytes: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class CudaMemory(_message.Message):
    __slots__ = ("gpu_uuid", "allocation", "offset_bytes", "size_bytes")
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    gpu_uuid: str
    allocation: bytes
    offset_bytes: int
    size_bytes: int
    def __init__(self, gpu_uuid: _Optional[str] = ..., allocation: _Optional[bytes] = ..., offset_bytes: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class CudaEvent(_message.Message):
    __slots__ = ("gpu_uuid", "event")
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    gpu_uuid: str
    event: bytes
    def __init__(self, gpu_uuid: _Optional[str] = ..., event: _Optional[bytes] = ...) -> None: ...

class GroupMemory(_message.Message):
    __slots__ = ("block_count", "segments")
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    block_count: int
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    def __init__(self, block_count: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("region", "offset_bytes", "stride_bytes")
    REGION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    STRIDE_BYTES_FIELD_NUMBER: _ClassVar[int]
    region: int
    offset_bytes: int
    stride_bytes: int
    def __init__(self, region: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., stride_bytes: _Optional[int] = ...) -> None: ...

class AttachMemoryResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DetachMemoryRequest(_message.Message):
    __slots__ = ("session_id", "rank", "wait_s")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    rank: int
    wait_s: float
    def __init__(self, session_id: _Optional[int] = ..., rank: _Optional[int] = ..., wait_s: _Optional[float] = ...) -> None: ...

class DetachMemoryResponse(_message.Message):
    __slots__ = ("drained",)
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    drained: bool
    def __init__(self, drained: bool = ...) -> None: ...

class GroupKeys(_message.Message):
    __slots__ = ("group", "keys")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    group: int
    keys: bytes
    def __init__(self, group: _Optional[int] = ..., keys: _Optional[bytes] = ...) -> None: ...

class GroupBlocks(_message.Message):
    __slots__ = ("group", "keys", "blocks")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    group: int
    keys: bytes
    blocks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[int] = ..., keys: _Optional[bytes] = ..., blocks: _Optional[_Iterable[int]] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("session_id", "generation", "request", "groups", "hold", "lease_ttl_s", "touch", "want_states")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_S_FIELD_NUMBER: _ClassVar[int]
    TOUCH_FIELD_NUMBER: _ClassVar[int]
    WANT_STATES_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    generation: int
    request: str
    groups: _containers.RepeatedCompositeFieldContainer[GroupKeys]
    hold: Hold
    lease_ttl_s: float
    touch: bool
    want_states: bool
    def __init__(self, session_id: _Optional[int] = ..., generation: _Optional[int] = ..., request: _Optional[str] = ..., groups: _Optional[_Iterable[_Union[GroupKeys, _Mapping]]] = ..., hold: _Optional[_Union[Hold, str]] = ..., lease_ttl_s: _Optional[float] = ..., touch: bool = ..., want_states: bool = ...) -> None: ...

class LookupResponse(_message.Message):
    __slots__ = ("generation", "groups", "lease_id", "lease_ttl_s")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_S_FIELD_NUMBER: _ClassVar[int]
    generation: int
    groups: _containers.RepeatedCompositeFieldContainer[GroupHits]
    lease_id: int
    lease_ttl_s: float
    def __init__(self, generation: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[GroupHits, _Mapping]]] = ..., lease_id: _Optional[int] = ..., lease_ttl_s: _Optional[float] = ...) -> None: ...

class GroupHits(_message.Message):
    __slots__ = ("hit_count", "pending_count", "states")
    HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    hit_count: int
    pending_count: int
    states: str
    def __init__(self, hit_count: _Optional[int] = ..., pending_count: _Optional[int] = ..., states: _Optional[str] = ...) -> None: ...

class StoreRequest(_message.Message):
    __slots__ = ("session_id", "generation", "transfer_id", "groups", "deadline_s", "fence")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    generation: int
    transfer_id: int
    groups: _containers.RepeatedCompositeFieldContainer[GroupBlocks]
    deadline_s: float
    fence: int
    def __init__(self, session_id: _Optional[int] = ..., generation: _Optional[int] = ..., transfer_id: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[GroupBlocks, _Mapping]]] = ..., deadline_s: _Optional[float] = ..., fence: _Optional[int] = ...) -> None: ...

class StoreResponse(_message.Message):
    __slots__ = ("statuses", "accepted_count")
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    statuses: str
    accepted_count: int
    def __init__(self, statuses: _Optional[str] = ..., accepted_count: _Optional[int] = ...) -> None: ...

class LoadRequest(_message.Message):
    __slots__ = ("session_id", "generation", "transfer_id", "groups", "lease_id", "deadline_s", "fence")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    generation: int
    transfer_id: int
    groups: _containers.RepeatedCompositeFieldContainer[GroupBlocks]
    lease_id: int
    deadline_s: float
    fence: int
    def __init__(self, session_id: _Optional[int] = ..., generation: _Optional[int] = ..., transfer_id: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[GroupBlocks, _Mapping]]] = ..., lease_id: _Optional[int] = ..., deadline_s: _Optional[float] = ..., fence: _Optional[int] = ...) -> None: ...

class LoadResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("session_id", "lease_ids")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session_id: _Optional[int] = ..., lease_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("released_count",)
    RELEASED_COUNT_FIELD_NUMBER: _ClassVar[int]
    released_count: int
    def __init__(self, released_count: _Optional[int] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("session_id", "transfer_ids")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_IDS_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    transfer_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session_id: _Optional[int] = ..., transfer_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("ended_count", "abandoned_count")
    ENDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ended_count: int
    abandoned_count: int
    def __init__(self, ended_count: _Optional[int] = ..., abandoned_count: _Optional[int] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("session_id", "wait_s")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    wait_s: float
    def __init__(self, session_id: _Optional[int] = ..., wait_s: _Optional[float] = ...) -> None: ...

class ResetResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: _reset_pb2.ResetResult
    def __init__(self, result: _Optional[_Union[_reset_pb2.ResetResult, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("session_id", "after")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    after: int
    def __init__(self, session_id: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("boot_id", "events")
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, boot_id: _Optional[str] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("sequence", "transfer_ended", "transfer_overdue", "space_reset", "reset_drained", "lease_expired", "draining", "resync")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ENDED_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_OVERDUE_FIELD_NUMBER: _ClassVar[int]
    SPACE_RESET_FIELD_NUMBER: _ClassVar[int]
    RESET_DRAINED_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    RESYNC_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    transfer_ended: TransferEnded
    transfer_overdue: TransferOverdue
    space_reset: SpaceReset
    reset_drained: ResetDrained
    lease_expired: LeaseExpired
    draining: Draining
    resync: Resync
    def __init__(self, sequence: _Optional[int] = ..., transfer_ended: _Optional[_Union[TransferEnded, _Mapping]] = ..., transfer_overdue: _Optional[_Union[TransferOverdue, _Mapping]] = ..., space_reset: _Optional[_Union[SpaceReset, _Mapping]] = ..., reset_drained: _Optional[_Union[ResetDrained, _Mapping]] = ..., lease_expired: _Optional[_Union[LeaseExpired, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ..., resync: _Optional[_Union[Resync, _Mapping]] = ...) -> None: ...

class TransferEnded(_message.Message):
    __slots__ = ("transfer_id", "kind", "state", "failures")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    transfer_id: int
    kind: _transfer_pb2.TransferKind
    state: _transfer_pb2.TransferState
    failures: _containers.RepeatedCompositeFieldContainer[_transfer_pb2.BlockFailures]
    def __init__(self, transfer_id: _Optional[int] = ..., kind: _Optional[_Union[_transfer_pb2.TransferKind, str]] = ..., state: _Optional[_Union[_transfer_pb2.TransferState, str]] = ..., failures: _Optional[_Iterable[_Union[_transfer_pb2.BlockFailures, _Mapping]]] = ...) -> None: ...

class TransferOverdue(_message.Message):
    __slots__ = ("transfer_id", "kind", "age_s")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    transfer_id: int
    kind: _transfer_pb2.TransferKind
    age_s: float
    def __init__(self, transfer_id: _Optional[int] = ..., kind: _Optional[_Union[_transfer_pb2.TransferKind, str]] = ..., age_s: _Optional[float] = ...) -> None: ...

class SpaceReset(_message.Message):
    __slots__ = ("generation",)
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    generation: int
    def __init__(self, generation: _Optional[int] = ...) -> None: ...

class ResetDrained(_message.Message):
    __slots__ = ("generation",)
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    generation: int
    def __init__(self, generation: _Optional[int] = ...) -> None: ...

class LeaseExpired(_message.Message):
    __slots__ = ("lease_id", "request")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    request: str
    def __init__(self, lease_id: _Optional[int] = ..., request: _Optional[str] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Resync(_message.Message):
    __slots__ = ("lost_count",)
    LOST_COUNT_FIELD_NUMBER: _ClassVar[int]
    lost_count: int
    def __init__(self, lost_count: _Optional[int] = ...) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("session_id", "sequence")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    sequence: int
    def __init__(self, session_id: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
