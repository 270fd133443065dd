"""Loads that fail by a plan and copies that take long, through the daemon's debug service."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import grpc

from client.faults import LOAD
from kvstow.v1 import debug_pb2, debug_pb2_grpc
from support.kvstowd import Kvstowd

_ROUNDS = 50
_NO_DELAY_S = 1e-6


@contextmanager
def failed_loads(
    daemon: Kvstowd, *, blocks: Sequence[int] = (), every: int = 1
) -> Iterator[Callable[[], float]]:
    """Every so many loads fail; gives what counts them.

    Args:
        daemon: with a debug service.
        blocks: which of a load's blocks fail; none means all.
        every: 3 for every third load.
    """
    fail = debug_pb2.Fault(kind=LOAD, fail=debug_pb2.FailBlocks(blocks=blocks), count=1)
    spare = debug_pb2.Fault(
        kind=LOAD, delay=debug_pb2.DelayCopy(delay_s=_NO_DELAY_S), count=every - 1
    )
    before = _failed_count(daemon)
    with grpc.insecure_channel(daemon.target) as channel:
        stub = debug_pb2_grpc.DebugServiceStub(channel)
        # The oldest fault that is not used up strikes.
        plan = [spare, fail] * _ROUNDS if every > 1 else [fail] * _ROUNDS
        numbers = [
            stub.AddFault(debug_pb2.AddFaultRequest(fault=fault)).fault_id for fault in plan
        ]
        yield lambda: _failed_count(daemon) - before
        for number in numbers:
            stub.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))


@contextmanager
def slow_copies(daemon: Kvstowd, delay_s: float) -> Iterator[None]:
    """Every copy takes longer, so that the engine goes on under it."""
    fault = debug_pb2.Fault(delay=debug_pb2.DelayCopy(delay_s=delay_s))
    with grpc.insecure_channel(daemon.target) as channel:
        stub = debug_pb2_grpc.DebugServiceStub(channel)
        number = stub.AddFault(debug_pb2.AddFaultRequest(fault=fault)).fault_id
        yield
        stub.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))


def _failed_count(daemon: Kvstowd) -> float:
    return daemon.metrics().get("kvstow_transfers_total load failed", 0)
