from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Identity(_message.Message):
    __slots__ = ("tenant", "model", "weights_version", "layout", "key_scheme")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_VERSION_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    KEY_SCHEME_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    model: str
    weights_version: str
    layout: Layout
    key_scheme: KeyScheme
    def __init__(self, tenant: _Optional[str] = ..., model: _Optional[str] = ..., weights_version: _Optional[str] = ..., layout: _Optional[_Union[Layout, _Mapping]] = ..., key_scheme: _Optional[_Union[KeyScheme, _Mapping]] = ...) -> None: ...

class Layout(_message.Message):
    __slots__ = ("dtype", "block_tokens", "world_size", "order", "groups")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    block_tokens: int
    world_size: int
    order: str
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    def __init__(self, dtype: _Optional[str] = ..., block_tokens: _Optional[int] = ..., world_size: _Optional[int] = ..., order: _Optional[str] = ..., groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("segment_bytes", "replicated")
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_FIELD_NUMBER: _ClassVar[int]
    segment_bytes: _containers.RepeatedScalarFieldContainer[int]
    replicated: bool
    def __init__(self, segment_bytes: _Optional[_Iterable[int]] = ..., replicated: bool = ...) -> None: ...

class KeyScheme(_message.Message):
    __slots__ = ("hash_name", "key_bytes", "fingerprint")
    HASH_NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_BYTES_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    hash_name: str
    key_bytes: int
    fingerprint: bytes
    def __init__(self, hash_name: _Optional[str] = ..., key_bytes: _Optional[int] = ..., fingerprint: _Optional[bytes] = ...) -> None: ...

class Process(_message.Message):
    __slots__ = ("pid", "pid_namespace", "start_time_ticks")
    PID_FIELD_NUMBER: _ClassVar[int]
    PID_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_TICKS_FIELD_NUMBER: _ClassVar[int]
    pid: int
    pid_namespace: int
    start_time_ticks: int
    def __init__(self, pid: _Optional[int] = ..., pid_namespace: _Optional[int] = ..., start_time_ticks: _Optional[int] = ...) -> None: ...
