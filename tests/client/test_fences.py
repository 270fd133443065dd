"""Fences and memory of GPUs in what a client sends."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from client.double import Double
from kvstow.client import CudaEvent, CudaMemory, Refused, Region, RemoteRank, Session, ranks
from kvstow.client.engines.offload.attachment import Attachment
from kvstow.server.core import errors
from support.clock import ManualClock
from support.waiting import DEADLINE_S, wait_for

GPU = "00010203-0405-0607-0809-0a0b0c0d0e0f"
REGION = Region(cuda_memory=CudaMemory(gpu_uuid=GPU, allocation=bytes(64), size_bytes=4096))
FENCES = [CudaEvent(gpu_uuid=GPU, event=bytes([number]) * 64) for number in range(3)]
BUSY = errors.DeviceBusy("the same memory is mapped for session 1")


def test_a_ring_is_attached_and_transfers_name_its_fences(
    double: Double, session: Session
) -> None:
    session.attach(0, [REGION], [], FENCES)
    assert list(double.requests["AttachMemory"].regions) == [REGION]
    assert list(double.requests["AttachMemory"].fences) == FENCES
    session.store([b"key1"], [0], session.generation, fence=0)
    assert double.requests["Store"].HasField("fence")
    assert double.requests["Store"].fence == 0
    hits = session.lookup("request", [b"key1"])
    session.load([b"key1"], [0], hits, fence=2)
    assert double.requests["Load"].fence == 2
    session.store([b"key2"], [1], session.generation)
    assert not double.requests["Store"].HasField("fence")


def test_a_rank_of_another_process_brings_its_ring(
    double: Double, session: Session, socket: Path
) -> None:
    target = f"unix:{socket}"
    with RemoteRank(1, [REGION], [], target, DEADLINE_S, FENCES) as rank:
        rank.follow(session.ticket)
    assert list(double.requests["AttachMemory"].fences) == FENCES


def test_a_session_that_was_opened_again_waits_for_the_copies_of_the_lost_one(
    double: Double, open_session: Callable[..., Session]
) -> None:
    """Its memory is the same, and the daemon lets go of it only after their end."""
    session = open_session()
    session.attach(0, [REGION], [], FENCES)
    double.refusals["AttachMemory"] = BUSY
    double.stage.end_stream(errors.NoSuchSession("gone"))
    wait_for(lambda: double.calls["AttachMemory"] > 2, "further attempts")
    del double.refusals["AttachMemory"]
    wait_for(lambda: session.ticket is not None, "an open session")
    assert list(double.requests["AttachMemory"].fences) == FENCES


def test_an_attach_that_finds_the_device_busy_is_given_up_after_its_time(
    double: Double, session: Session, socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(ranks, "time", SimpleNamespace(monotonic=clock, sleep=clock.advance))
    monkeypatch.setattr(ranks, "_BUSY_PAUSE_S", DEADLINE_S / 3.5)
    double.refusals["AttachMemory"] = BUSY
    with RemoteRank(0, [REGION], [], f"unix:{socket}", limit_s=DEADLINE_S) as rank:
        with pytest.raises(Refused, match="DEVICE_BUSY"):
            rank.follow(session.ticket)
        assert double.calls["AttachMemory"] == 4
        double.refusals["AttachMemory"] = errors.RegionInvalid("it is too small")
        with pytest.raises(Refused, match="REGION_INVALID"):
            rank.follow(session.ticket)
        assert double.calls["AttachMemory"] == 5
        del double.refusals["AttachMemory"]
        rank.follow(session.ticket)


def test_a_worker_asks_until_the_device_has_let_go_of_its_memory(
    double: Double, session: Session, socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "_BUSY_PAUSE_S", 2 * DEADLINE_S)  # given up after one refusal
    double.refusals["AttachMemory"] = BUSY
    rank = RemoteRank(0, [REGION], [], f"unix:{socket}", limit_s=DEADLINE_S)
    with Attachment(rank) as attachment:
        attachment.follow(session.ticket)
        wait_for(lambda: double.calls["AttachMemory"] > 2, "further attempts")
        assert attachment.attached is None
        del double.refusals["AttachMemory"]
        wait_for(lambda: attachment.attached == session.ticket, "the attachment")
