"""Holds and fails copies of a real daemon, through its debug service, and stops whole processes."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc

from kvstow.v1 import debug_pb2, debug_pb2_grpc, transfer_pb2
from support.kvstowd import Kvstowd
from support.waiting import wait_for

STORE = transfer_pb2.TRANSFER_KIND_STORE
LOAD = transfer_pb2.TRANSFER_KIND_LOAD


@contextmanager
def held(daemon: Kvstowd, kind: transfer_pb2.TransferKind) -> Iterator[Callable[[], None]]:
    """Copies in this direction are held until the end of the block, or of the daemon.

    Gives what waits until one is held: before that its transfer may be queued still, and would end at once.
    """
    with grpc.insecure_channel(daemon.target) as channel:
        stub = debug_pb2_grpc.DebugServiceStub(channel)
        fault = debug_pb2.Fault(kind=kind, hold=debug_pb2.HoldCopy())
        number = stub.AddFault(debug_pb2.AddFaultRequest(fault=fault)).fault_id

        def is_held() -> bool:
            faults = stub.ListFaults(debug_pb2.ListFaultsRequest()).faults
            return any(found.fault_id == number and found.held_count for found in faults)

        try:
            yield lambda: wait_for(is_held, "a held copy")
        finally:
            with suppress(grpc.RpcError):  # the test may have ended the daemon
                stub.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))


def fail_next(daemon: Kvstowd, kind: transfer_pb2.TransferKind, block: int, reason: str) -> None:
    """One block of the next copy in this direction fails."""
    fail = debug_pb2.FailBlocks(blocks=[block], reason=reason)
    fault = debug_pb2.Fault(kind=kind, fail=fail, count=1)
    with grpc.insecure_channel(daemon.target) as channel:
        debug_pb2_grpc.DebugServiceStub(channel).AddFault(debug_pb2.AddFaultRequest(fault=fault))


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """The process does nothing from the beginning of the block to its end, and does not know it."""
    process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{process.pid}/task")
    try:
        wait_for(
            lambda: all(stands_still(stat) for stat in tasks.glob("*/stat")),
            "every thread to be stopped",
        )
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def stands_still(stat: Path) -> bool:
    """Whether a thread is stopped, or has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return True
