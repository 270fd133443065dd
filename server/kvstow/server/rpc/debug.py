"""The debug service: drives the device wrapper that holds, fails and delays chosen copies.

Remembers the faults as they were asked for, until they are released. Methods run on the server's
threads; the lock here guards only that memory.
"""

import threading
from collections import Counter

import grpc

from kvstow.server.core.errors import InvalidRequest
from kvstow.server.core.types import TransferKind
from kvstow.server.device.base import Direction
from kvstow.server.device.faults import (
    Delay,
    Fail,
    Fault,
    FaultRule,
    FaultyDevice,
    Hold,
    RuleId,
)
from kvstow.v1 import debug_pb2, debug_pb2_grpc

from . import convert

MAX_DELAY_S = 3600.0
DEFAULT_REASON = "injected fault"

_DIRECTIONS = {
    None: None,
    TransferKind.STORE: Direction.STORE,
    TransferKind.LOAD: Direction.LOAD,
}


class DebugServicer(debug_pb2_grpc.DebugServiceServicer):
    """See kvstow/v1/debug.proto for what each method promises.

    Args:
        device: the wrapper.
    """

    def __init__(self, device: FaultyDevice) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._faults: dict[RuleId, debug_pb2.Fault] = {}

    def AddFault(
        self, request: debug_pb2.AddFaultRequest, context: grpc.ServicerContext
    ) -> debug_pb2.AddFaultResponse:
        number = self._device.add(_rule(request.fault))
        with self._lock:
            self._faults[number] = request.fault
        return debug_pb2.AddFaultResponse(fault_id=number)

    def ReleaseFault(
        self, request: debug_pb2.ReleaseFaultRequest, context: grpc.ServicerContext
    ) -> debug_pb2.ReleaseFaultResponse:
        number = RuleId(request.fault_id)
        with self._lock:
            known = self._faults.pop(number, None) is not None
        if known:
            self._device.remove(number)
        return debug_pb2.ReleaseFaultResponse(released=known)

    def ListFaults(
        self, request: debug_pb2.ListFaultsRequest, context: grpc.ServicerContext
    ) -> debug_pb2.ListFaultsResponse:
        held = Counter(copy.rule for copy in self._device.held())
        with self._lock:
            faults = sorted(self._faults.items())
        return debug_pb2.ListFaultsResponse(
            faults=[
                debug_pb2.ActiveFault(fault_id=number, fault=fault, held_count=held[number])
                for number, fault in faults
            ]
        )


def _rule(message: debug_pb2.Fault) -> FaultRule:
    return FaultRule(
        fault=_fault(message),
        session=message.session_id if message.HasField("session_id") else None,
        transfer=message.transfer_id if message.HasField("transfer_id") else None,
        rank=message.rank if message.HasField("rank") else None,
        direction=_DIRECTIONS[convert.kind(message.kind)],
        count=message.count or None,
    )


def _fault(message: debug_pb2.Fault) -> Fault:
    match message.WhichOneof("action"):
        case "hold":
            return Hold()
        case "fail":
            reason = convert.text(message.fail.reason, "fault.fail.reason") or DEFAULT_REASON
            return Fail(reason, tuple(message.fail.blocks) or None)
        case "delay":
            return Delay(_delay_s(message.delay.delay_s))
        case _:
            raise InvalidRequest("the fault has no action", field="fault.action")


def _delay_s(value: float) -> float:
    delay_s = convert.seconds(value, "fault.delay.delay_s")
    if delay_s > MAX_DELAY_S:
        raise InvalidRequest(f"{delay_s} s are more than an hour", field="fault.delay.delay_s")
    return delay_s
