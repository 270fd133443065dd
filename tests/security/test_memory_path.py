"""Engine memory lies where the settings, or the engine's token, say: no other file is opened, nor told apart from none."""

import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from kvstow.v1 import cache_pb2
from rpc.rig import BLOCK_BYTES, BLOCK_COUNT, Engine, config, refused
from security.rig import ENGINE_A, ENGINE_B, ENTRIES, Guarded, entry, guarded
from support.memory import shared_directory
from support.waiting import DEADLINE_S

SIZE_BYTES = BLOCK_BYTES * BLOCK_COUNT
OF_A = b"a" * SIZE_BYTES


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory on tmpfs with one inside for each tenant."""
    with shared_directory() as place:
        for tenant in ("a", "b"):
            (place / tenant).mkdir()
            (place / tenant / "memory").write_bytes(OF_A)
        yield place


@pytest.fixture
def daemon(place: Path) -> Iterator[Guarded]:
    entries = [
        entry("engine-a", "engine", ENGINE_A, tenant="a"),
        entry("engine-b", "engine", ENGINE_B, tenant="b", memory_path=str(place / "b")),
        *ENTRIES[2:],
    ]
    settings = config(max_sessions=8, max_spaces=8)
    with guarded(place, settings, entries=entries, memory_path=place) as daemon:
        yield daemon


@pytest.fixture
def b(daemon: Guarded) -> Engine:
    return daemon.engine(ENGINE_B, attached=False)


def attach(daemon: Guarded, engine: Engine, token: str, path: Path | str) -> str:
    """How an attempt to register a file ends: OK, or code, reason and words."""
    request = engine.attach_request(file=Path(path))
    request.regions[0].shared_memory.path = str(path)
    try:
        daemon.cache(token).AttachMemory(request)
    except grpc.RpcError as refusal:
        return f"{refused(refusal)} {message(refusal)}"
    daemon.cache(token).DetachMemory(
        cache_pb2.DetachMemoryRequest(session_id=engine.session_id, wait_s=DEADLINE_S)
    )
    return "OK"


def message(refusal: grpc.RpcError) -> str:
    assert isinstance(refusal, grpc.Call)
    return refusal.details() or ""


def test_a_file_in_the_place_is_taken(daemon: Guarded, place: Path, b: Engine) -> None:
    assert attach(daemon, b, ENGINE_B, place / "b" / "memory") == "OK"
    (place / "b" / "deep").mkdir()
    (place / "b" / "deep" / "memory").write_bytes(OF_A)
    assert attach(daemon, b, ENGINE_B, place / "b" / "deep" / "memory") == "OK"


def test_the_setting_holds_for_tokens_that_say_nothing_else(daemon: Guarded, place: Path) -> None:
    a = daemon.engine(ENGINE_A, attached=False)
    assert attach(daemon, a, ENGINE_A, place / "a" / "memory") == "OK"
    with shared_directory() as elsewhere:
        (elsewhere / "memory").write_bytes(OF_A)
        assert "REGION_INVALID" in attach(daemon, a, ENGINE_A, elsewhere / "memory")


def ways_out(place: Path) -> list[tuple[Path | str, Path | str]]:
    """Names of the other tenant's memory, each with the same way to what does not exist."""
    mine, other = place / "b", place / "a"
    (mine / "directory").symlink_to(other)
    (mine / "file").symlink_to(other / "memory")
    (mine / "nowhere").symlink_to(other / "nothing")
    return [
        (other / "memory", other / "nothing"),
        (f"{mine}/../a/memory", f"{mine}/../a/nothing"),
        (mine / "directory" / "memory", mine / "directory" / "nothing"),
        (mine / "file", mine / "nowhere"),
        (f"{place}/b/../../{place.name}/a/memory", f"{place}/b/../../{place.name}/a/nothing"),
    ]


def test_no_way_leads_out_of_it_nor_shows_what_is_there(
    daemon: Guarded, place: Path, b: Engine
) -> None:
    for there, nothing in ways_out(place):
        found, missed = (attach(daemon, b, ENGINE_B, path) for path in (there, nothing))
        assert "REGION_INVALID" in found
        assert found.replace(str(there), "FILE") == missed.replace(str(nothing), "FILE")


def test_a_descriptor_of_another_process_leads_nowhere(
    daemon: Guarded, place: Path, b: Engine
) -> None:
    anonymous = os.memfd_create("memory")
    os.truncate(anonymous, SIZE_BYTES)
    theirs = os.open(place / "a" / "memory", os.O_RDWR)
    mine = os.open(place / "b" / "memory", os.O_RDWR)
    names = [f"/proc/{os.getpid()}/fd/{number}" for number in (anonymous, theirs, 9999, mine)]
    try:
        *refusals, permitted = (attach(daemon, b, ENGINE_B, name) for name in names)
    finally:
        for descriptor in (anonymous, theirs, mine):
            os.close(descriptor)
    assert permitted == "OK"  # it lies there
    told = {refusal.replace(name, "FILE") for refusal, name in zip(refusals, names, strict=False)}
    assert len(told) == 1
    assert "REGION_INVALID" in told.pop()


def test_without_a_place_any_file_on_tmpfs_is_taken(place: Path) -> None:
    with guarded(place) as daemon:
        b = daemon.engine(ENGINE_B, attached=False)
        assert attach(daemon, b, ENGINE_B, place / "a" / "memory") == "OK"
