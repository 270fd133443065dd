from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ResetResult(_message.Message):
    __slots__ = ("generation", "dropped_count", "ended_count", "abandoned_stores", "abandoned_loads", "drained")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    DROPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ENDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_STORES_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_LOADS_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    dropped_count: int
    ended_count: int
    abandoned_stores: int
    abandoned_loads: int
    drained: bool
    def __init__(self, generation: _Optional[int] = ..., dropped_count: _Optional[int] = ..., ended_count: _Optional[int] = ..., abandoned_stores: _Optional[int] = ..., abandoned_loads: _Optional[int] = ..., drained: bool = ...) -> None: ...
