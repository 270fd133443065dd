from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class TransferKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRANSFER_KIND_UNSPECIFIED: _ClassVar[TransferKind]
    TRANSFER_KIND_STORE: _ClassVar[TransferKind]
    TRANSFER_KIND_LOAD: _ClassVar[TransferKind]

class TransferState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRANSFER_STATE_UNSPECIFIED: _ClassVar[TransferState]
    TRANSFER_STATE_QUEUED: _ClassVar[TransferState]
    TRANSFER_STATE_RUNNING: _ClassVar[TransferState]
    TRANSFER_STATE_DONE: _ClassVar[TransferState]
    TRANSFER_STATE_FAILED: _ClassVar[TransferState]
    TRANSFER_STATE_ABANDONED: _ClassVar[TransferState]
TRANSFER_KIND_UNSPECIFIED: TransferKind
TRANSFER_KIND_STORE: TransferKind
TRANSFER_KIND_LOAD: TransferKind
TRANSFER_STATE_UNSPECIFIED: TransferState
TRANSFER_STATE_QUEUED: TransferState
TRANSFER_STATE_RUNNING: TransferState
TRANSFER_STATE_DONE: TransferState
TRANSFER_STATE_FAILED: TransferState
TRANSFER_STATE_ABANDONED: TransferState

class BlockFailures(_message.Message):
    __slots__ = ("rank", "reason", "positions")
    RANK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    reason: str
    positions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rank: _Optional[int] = ..., reason: _Optional[str] = ..., positions: _Optional[_Iterable[int]] = ...) -> None: ...
