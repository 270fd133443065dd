"""Loads that fail by a plan and copies that take long, through the daemon's debug service."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import grpc

from client.faults import LOAD, STORE
from kvstow.v1 import debug_pb2, debug_pb2_grpc
from kvstow.v1.transfer_pb2 import TransferKind
from support.kvstowd import Kvstowd

_ROUNDS = 50
_NO_DELAY_S = 1e-6


def failed_loads(
    daemon: Kvstowd, *, blocks: Sequence[int] = (), every: int = 1
) -> AbstractContextManager[Callable[[], float]]:
    """Every so many loads fail; see `failed_copies`."""
    return failed_copies(daemon, LOAD, blocks, every)


def failed_stores(
    daemon: Kvstowd, *, blocks: Sequence[int] = (), every: int = 1
) -> AbstractContextManager[Callable[[], float]]:
    """Every so many stores fail; see `failed_copies`."""
    return failed_copies(daemon, STORE, blocks, every)


@contextmanager
def failed_copies(
    daemon: Kvstowd, kind: TransferKind, blocks: Sequence[int], every: int
) -> Iterator[Callable[[], float]]:
    """Every so many copies in one direction fail; gives what counts them.

    Args:
        daemon: with a debug service.
        blocks: which of a copy's blocks fail; none means all.
        every: 3 for every third copy.
    """
    fail = debug_pb2.Fault(kind=kind, fail=debug_pb2.FailBlocks(blocks=blocks), count=1)
    spare = debug_pb2.Fault(
        kind=kind, delay=debug_pb2.DelayCopy(delay_s=_NO_DELAY_S), count=every - 1
    )
    before = _failed_count(daemon, kind)
    with grpc.insecure_channel(daemon.target) as channel:
        stub = debug_pb2_grpc.DebugServiceStub(channel)
        # The oldest fault that is not used up strikes.
        plan = [spare, fail] * _ROUNDS if every > 1 else [fail] * _ROUNDS
        numbers = [
            stub.AddFault(debug_pb2.AddFaultRequest(fault=fault)).fault_id for fault in plan
        ]
        try:
            yield lambda: _failed_count(daemon, kind) - before
        finally:
            for number in numbers:
                stub.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))


@contextmanager
def slow_copies(daemon: Kvstowd, delay_s: float) -> Iterator[None]:
    """Every copy takes longer, so that the engine goes on under it."""
    fault = debug_pb2.Fault(delay=debug_pb2.DelayCopy(delay_s=delay_s))
    with grpc.insecure_channel(daemon.target) as channel:
        stub = debug_pb2_grpc.DebugServiceStub(channel)
        number = stub.AddFault(debug_pb2.AddFaultRequest(fault=fault)).fault_id
        try:
            yield
        finally:
            stub.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))


def _failed_count(daemon: Kvstowd, kind: TransferKind) -> float:
    name = "load" if kind == LOAD else "store"
    return daemon.metrics().get(f"kvstow_transfers_total {name} failed", 0)
