from kvstow.v1 import identity_pb2 as _identity_pb2
from kvstow.v1 import reset_pb2 as _reset_pb2
from kvstow.v1 import transfer_pb2 as _transfer_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class KeyFate(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEY_FATE_UNSPECIFIED: _ClassVar[KeyFate]
    KEY_FATE_READY: _ClassVar[KeyFate]
    KEY_FATE_WRITING: _ClassVar[KeyFate]
    KEY_FATE_EVICTED: _ClassVar[KeyFate]
    KEY_FATE_RECLAIMED: _ClassVar[KeyFate]
    KEY_FATE_RESET: _ClassVar[KeyFate]
    KEY_FATE_LOAD_FAILED: _ClassVar[KeyFate]
    KEY_FATE_STORE_FAILED: _ClassVar[KeyFate]
    KEY_FATE_STORE_ABANDONED: _ClassVar[KeyFate]
    KEY_FATE_NO_SPACE: _ClassVar[KeyFate]
    KEY_FATE_NOT_ADMITTED: _ClassVar[KeyFate]
    KEY_FATE_UNKNOWN: _ClassVar[KeyFate]
KEY_FATE_UNSPECIFIED: KeyFate
KEY_FATE_READY: KeyFate
KEY_FATE_WRITING: KeyFate
KEY_FATE_EVICTED: KeyFate
KEY_FATE_RECLAIMED: KeyFate
KEY_FATE_RESET: KeyFate
KEY_FATE_LOAD_FAILED: KeyFate
KEY_FATE_STORE_FAILED: KeyFate
KEY_FATE_STORE_ABANDONED: KeyFate
KEY_FATE_NO_SPACE: KeyFate
KEY_FATE_NOT_ADMITTED: KeyFate
KEY_FATE_UNKNOWN: KeyFate

class ListSpacesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSpacesResponse(_message.Message):
    __slots__ = ("spaces",)
    SPACES_FIELD_NUMBER: _ClassVar[int]
    spaces: _containers.RepeatedCompositeFieldContainer[Space]
    def __init__(self, spaces: _Optional[_Iterable[_Union[Space, _Mapping]]] = ...) -> None: ...

class Space(_message.Message):
    __slots__ = ("space_id", "identity", "generation", "session_count", "ready_count", "writing_count", "draining_generations", "counters")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    READY_COUNT_FIELD_NUMBER: _ClassVar[int]
    WRITING_COUNT_FIELD_NUMBER: _ClassVar[int]
    DRAINING_GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    space_id: int
    identity: _identity_pb2.Identity
    generation: int
    session_count: int
    ready_count: int
    writing_count: int
    draining_generations: _containers.RepeatedScalarFieldContainer[int]
    counters: SpaceCounters
    def __init__(self, space_id: _Optional[int] = ..., identity: _Optional[_Union[_identity_pb2.Identity, _Mapping]] = ..., generation: _Optional[int] = ..., session_count: _Optional[int] = ..., ready_count: _Optional[int] = ..., writing_count: _Optional[int] = ..., draining_generations: _Optional[_Iterable[int]] = ..., counters: _Optional[_Union[SpaceCounters, _Mapping]] = ...) -> None: ...

class SpaceCounters(_message.Message):
    __slots__ = ("lookups", "hit_count", "pending_count", "missed_count", "stored_count", "loaded_count", "evicted_count", "dropped_count", "resets")
    LOOKUPS_FIELD_NUMBER: _ClassVar[int]
    HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISSED_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORED_COUNT_FIELD_NUMBER: _ClassVar[int]
    LOADED_COUNT_FIELD_NUMBER: _ClassVar[int]
    EVICTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    lookups: int
    hit_count: int
    pending_count: int
    missed_count: int
    stored_count: int
    loaded_count: int
    evicted_count: int
    dropped_count: int
    resets: int
    def __init__(self, lookups: _Optional[int] = ..., hit_count: _Optional[int] = ..., pending_count: _Optional[int] = ..., missed_count: _Optional[int] = ..., stored_count: _Optional[int] = ..., loaded_count: _Optional[int] = ..., evicted_count: _Optional[int] = ..., dropped_count: _Optional[int] = ..., resets: _Optional[int] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("session_id", "name", "space_id", "age_s", "streaming", "attached_ranks", "world_size", "transfer_count", "lease_count", "held_count", "unacknowledged_count")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    STREAMING_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_RANKS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEASE_COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    name: str
    space_id: int
    age_s: float
    streaming: bool
    attached_ranks: _containers.RepeatedScalarFieldContainer[int]
    world_size: int
    transfer_count: int
    lease_count: int
    held_count: int
    unacknowledged_count: int
    def __init__(self, session_id: _Optional[int] = ..., name: _Optional[str] = ..., space_id: _Optional[int] = ..., age_s: _Optional[float] = ..., streaming: bool = ..., attached_ranks: _Optional[_Iterable[int]] = ..., world_size: _Optional[int] = ..., transfer_count: _Optional[int] = ..., lease_count: _Optional[int] = ..., held_count: _Optional[int] = ..., unacknowledged_count: _Optional[int] = ...) -> None: ...

class ListTransfersRequest(_message.Message):
    __slots__ = ("limit", "overdue_only")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OVERDUE_ONLY_FIELD_NUMBER: _ClassVar[int]
    limit: int
    overdue_only: bool
    def __init__(self, limit: _Optional[int] = ..., overdue_only: bool = ...) -> None: ...

class ListTransfersResponse(_message.Message):
    __slots__ = ("transfers", "total_count")
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    transfers: _containers.RepeatedCompositeFieldContainer[Transfer]
    total_count: int
    def __init__(self, transfers: _Optional[_Iterable[_Union[Transfer, _Mapping]]] = ..., total_count: _Optional[int] = ...) -> None: ...

class Transfer(_message.Message):
    __slots__ = ("session_id", "transfer_id", "kind", "state", "abandoned", "overdue", "age_s", "block_count", "space_id", "generation", "session_name", "unfinished_ranks")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    OVERDUE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_NAME_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_RANKS_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    transfer_id: int
    kind: _transfer_pb2.TransferKind
    state: _transfer_pb2.TransferState
    abandoned: bool
    overdue: bool
    age_s: float
    block_count: int
    space_id: int
    generation: int
    session_name: str
    unfinished_ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session_id: _Optional[int] = ..., transfer_id: _Optional[int] = ..., kind: _Optional[_Union[_transfer_pb2.TransferKind, str]] = ..., state: _Optional[_Union[_transfer_pb2.TransferState, str]] = ..., abandoned: bool = ..., overdue: bool = ..., age_s: _Optional[float] = ..., block_count: _Optional[int] = ..., space_id: _Optional[int] = ..., generation: _Optional[int] = ..., session_name: _Optional[str] = ..., unfinished_ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class ListLeasesRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ListLeasesResponse(_message.Message):
    __slots__ = ("leases", "total_count")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    total_count: int
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., total_count: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("lease_id", "session_id", "request", "block_count", "remaining_s")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    session_id: int
    request: str
    block_count: int
    remaining_s: float
    def __init__(self, lease_id: _Optional[int] = ..., session_id: _Optional[int] = ..., request: _Optional[str] = ..., block_count: _Optional[int] = ..., remaining_s: _Optional[float] = ...) -> None: ...

class GetStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatsResponse(_message.Message):
    __slots__ = ("pool_bytes", "extent_bytes", "free_extents", "slots", "stored_bytes", "loaded_bytes")
    POOL_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXTENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_EXTENTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOADED_BYTES_FIELD_NUMBER: _ClassVar[int]
    pool_bytes: int
    extent_bytes: int
    free_extents: int
    slots: _containers.RepeatedCompositeFieldContainer[SlotStats]
    stored_bytes: int
    loaded_bytes: int
    def __init__(self, pool_bytes: _Optional[int] = ..., extent_bytes: _Optional[int] = ..., free_extents: _Optional[int] = ..., slots: _Optional[_Iterable[_Union[SlotStats, _Mapping]]] = ..., stored_bytes: _Optional[int] = ..., loaded_bytes: _Optional[int] = ...) -> None: ...

class SlotStats(_message.Message):
    __slots__ = ("slot_bytes", "extents", "slot_count", "free_count", "evictable_count", "held_count", "writing_count", "quarantined_count", "zeroing_count")
    SLOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    SLOT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FREE_COUNT_FIELD_NUMBER: _ClassVar[int]
    EVICTABLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_COUNT_FIELD_NUMBER: _ClassVar[int]
    WRITING_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ZEROING_COUNT_FIELD_NUMBER: _ClassVar[int]
    slot_bytes: int
    extents: int
    slot_count: int
    free_count: int
    evictable_count: int
    held_count: int
    writing_count: int
    quarantined_count: int
    zeroing_count: int
    def __init__(self, slot_bytes: _Optional[int] = ..., extents: _Optional[int] = ..., slot_count: _Optional[int] = ..., free_count: _Optional[int] = ..., evictable_count: _Optional[int] = ..., held_count: _Optional[int] = ..., writing_count: _Optional[int] = ..., quarantined_count: _Optional[int] = ..., zeroing_count: _Optional[int] = ...) -> None: ...

class GetConfigurationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigurationResponse(_message.Message):
    __slots__ = ("settings",)
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class Setting(_message.Message):
    __slots__ = ("name", "value", "source")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    source: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class ExplainKeysRequest(_message.Message):
    __slots__ = ("space_id", "group", "keys")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    space_id: int
    group: int
    keys: bytes
    def __init__(self, space_id: _Optional[int] = ..., group: _Optional[int] = ..., keys: _Optional[bytes] = ...) -> None: ...

class ExplainKeysResponse(_message.Message):
    __slots__ = ("generation", "fates", "ages_s", "generations", "complete", "reaches_back_s")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FATES_FIELD_NUMBER: _ClassVar[int]
    AGES_S_FIELD_NUMBER: _ClassVar[int]
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    REACHES_BACK_S_FIELD_NUMBER: _ClassVar[int]
    generation: int
    fates: _containers.RepeatedScalarFieldContainer[KeyFate]
    ages_s: _containers.RepeatedScalarFieldContainer[float]
    generations: _containers.RepeatedScalarFieldContainer[int]
    complete: bool
    reaches_back_s: float
    def __init__(self, generation: _Optional[int] = ..., fates: _Optional[_Iterable[_Union[KeyFate, str]]] = ..., ages_s: _Optional[_Iterable[float]] = ..., generations: _Optional[_Iterable[int]] = ..., complete: bool = ..., reaches_back_s: _Optional[float] = ...) -> None: ...

class ListMissesRequest(_message.Message):
    __slots__ = ("space_id",)
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    space_id: int
    def __init__(self, space_id: _Optional[int] = ...) -> None: ...

class ListMissesResponse(_message.Message):
    __slots__ = ("misses",)
    MISSES_FIELD_NUMBER: _ClassVar[int]
    misses: _containers.RepeatedCompositeFieldContainer[Miss]
    def __init__(self, misses: _Optional[_Iterable[_Union[Miss, _Mapping]]] = ...) -> None: ...

class Miss(_message.Message):
    __slots__ = ("key", "group", "hit_count", "key_count", "age_s", "lookup_count", "fate", "fate_age_s", "generation")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_COUNT_FIELD_NUMBER: _ClassVar[int]
    FATE_FIELD_NUMBER: _ClassVar[int]
    FATE_AGE_S_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    group: int
    hit_count: int
    key_count: int
    age_s: float
    lookup_count: int
    fate: KeyFate
    fate_age_s: float
    generation: int
    def __init__(self, key: _Optional[bytes] = ..., group: _Optional[int] = ..., hit_count: _Optional[int] = ..., key_count: _Optional[int] = ..., age_s: _Optional[float] = ..., lookup_count: _Optional[int] = ..., fate: _Optional[_Union[KeyFate, str]] = ..., fate_age_s: _Optional[float] = ..., generation: _Optional[int] = ...) -> None: ...

class ResetSpaceRequest(_message.Message):
    __slots__ = ("space_id", "wait_s")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    space_id: int
    wait_s: float
    def __init__(self, space_id: _Optional[int] = ..., wait_s: _Optional[float] = ...) -> None: ...

class ResetSpaceResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: _reset_pb2.ResetResult
    def __init__(self, result: _Optional[_Union[_reset_pb2.ResetResult, _Mapping]] = ...) -> None: ...

class ResetAllRequest(_message.Message):
    __slots__ = ("wait_s",)
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    wait_s: float
    def __init__(self, wait_s: _Optional[float] = ...) -> None: ...

class ResetAllResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SpaceResetResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SpaceResetResult, _Mapping]]] = ...) -> None: ...

class SpaceResetResult(_message.Message):
    __slots__ = ("space_id", "result")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    space_id: int
    result: _reset_pb2.ResetResult
    def __init__(self, space_id: _Optional[int] = ..., result: _Optional[_Union[_reset_pb2.ResetResult, _Mapping]] = ...) -> None: ...

class DropSpaceRequest(_message.Message):
    __slots__ = ("space_id",)
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    space_id: int
    def __init__(self, space_id: _Optional[int] = ...) -> None: ...

class DropSpaceResponse(_message.Message):
    __slots__ = ("dropped_count",)
    DROPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    dropped_count: int
    def __init__(self, dropped_count: _Optional[int] = ...) -> None: ...

class CheckLedgerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckLedgerResponse(_message.Message):
    __slots__ = ("ok",)
    OK_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    def __init__(self, ok: bool = ...) -> None: ...
