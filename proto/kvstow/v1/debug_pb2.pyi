from kvstow.v1 import transfer_pb2 as _transfer_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Fault(_message.Message):
    __slots__ = ("session_id", "transfer_id", "rank", "kind", "hold", "fail", "delay", "count")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    transfer_id: int
    rank: int
    kind: _transfer_pb2.TransferKind
    hold: HoldCopy
    fail: FailBlocks
    delay: DelayCopy
    count: int
    def __init__(self, session_id: _Optional[int] = ..., transfer_id: _Optional[int] = ..., rank: _Optional[int] = ..., kind: _Optional[_Union[_transfer_pb2.TransferKind, str]] = ..., hold: _Optional[_Union[HoldCopy, _Mapping]] = ..., fail: _Optional[_Union[FailBlocks, _Mapping]] = ..., delay: _Optional[_Union[DelayCopy, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class HoldCopy(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FailBlocks(_message.Message):
    __slots__ = ("blocks", "reason")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    def __init__(self, blocks: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ...) -> None: ...

class DelayCopy(_message.Message):
    __slots__ = ("delay_s",)
    DELAY_S_FIELD_NUMBER: _ClassVar[int]
    delay_s: float
    def __init__(self, delay_s: _Optional[float] = ...) -> None: ...

class AddFaultRequest(_message.Message):
    __slots__ = ("fault",)
    FAULT_FIELD_NUMBER: _ClassVar[int]
    fault: Fault
    def __init__(self, fault: _Optional[_Union[Fault, _Mapping]] = ...) -> None: ...

class AddFaultResponse(_message.Message):
    __slots__ = ("fault_id",)
    FAULT_ID_FIELD_NUMBER: _ClassVar[int]
    fault_id: int
    def __init__(self, fault_id: _Optional[int] = ...) -> None: ...

class ReleaseFaultRequest(_message.Message):
    __slots__ = ("fault_id",)
    FAULT_ID_FIELD_NUMBER: _ClassVar[int]
    fault_id: int
    def __init__(self, fault_id: _Optional[int] = ...) -> None: ...

class ReleaseFaultResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: bool = ...) -> None: ...

class ListFaultsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFaultsResponse(_message.Message):
    __slots__ = ("faults",)
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    faults: _containers.RepeatedCompositeFieldContainer[ActiveFault]
    def __init__(self, faults: _Optional[_Iterable[_Union[ActiveFault, _Mapping]]] = ...) -> None: ...

class ActiveFault(_message.Message):
    __slots__ = ("fault_id", "fault", "held_count")
    FAULT_ID_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    HELD_COUNT_FIELD_NUMBER: _ClassVar[int]
    fault_id: int
    fault: Fault
    held_count: int
    def __init__(self, fault_id: _Optional[int] = ..., fault: _Optional[_Union[Fault, _Mapping]] = ..., held_count: _Optional[int] = ...) -> None: ...
