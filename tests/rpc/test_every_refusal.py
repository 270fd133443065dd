"""Every documented refusal of every call comes over a real socket, and changes nothing."""

import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor

from kvstow.server.rpc.status import CODES
from kvstow.v1 import admin_pb2, cache_pb2, identity_pb2
from rpc.refusals import ADMIN, CACHE, CASES, NAMING_A_SESSION
from rpc.rig import PATIENCE_S, Engine, Served, identity, refused, served
from support.processes import running_process

PROTOS = Path(__file__).parents[2] / "proto/kvstow/v1"
RPC = re.compile(r"((?:^  //.*\n)+)  rpc (\w+)\(", re.MULTILINE)
REASONS = re.compile(r"//\s+[A-Z_]+ / ([A-Z_]+(?:, [A-Z_]+)*)\b")
CODE_NAMES = {refusal.reason: code.name for refusal, code in CODES.items()}

STARTING = [
    f"{CACHE}/OpenSession",
    *(f"{ADMIN}/{name}" for name in ("ResetSpace", "ResetAll", "DropSpace")),
]
DRAINING = [
    f"{CACHE}/{name}" for name in ("OpenSession", "AttachMemory", "Lookup", "Store", "Load")
]
ENDS_OF_STREAMS = {(f"{CACHE}/Watch", "STREAM_REPLACED"), (f"{CACHE}/Watch", "DRAINING")}
SERVICES: dict[str, ServiceDescriptor] = {
    CACHE: cache_pb2.DESCRIPTOR.services_by_name[CACHE],
    ADMIN: admin_pb2.DESCRIPTOR.services_by_name[ADMIN],
}


def documented() -> set[tuple[str, str]]:
    """(call, reason) for each reason that the comment of a call lists."""
    found = set()
    for service, file in ((CACHE, "cache.proto"), (ADMIN, "admin.proto")):
        for comment, name in RPC.findall((PROTOS / file).read_text(encoding="utf-8")):
            for reasons in REASONS.findall(comment):
                found |= {(f"{service}/{name}", reason) for reason in reasons.split(", ")}
    return found


def good_request(served: Served, method: str) -> Any:
    """A request of a living session that nothing is wrong with, as far as the call needs one."""
    engine = Engine(served, attached=False)
    match method.split("/")[1]:
        case "OpenSession":
            return cache_pb2.OpenSessionRequest(identity=identity())
        case "AttachMemory":
            return engine.attach_request()
        case "Lookup":
            return engine.lookup_request([1])
        case "Store":
            return engine.store_request(1, [1])
        case _:
            return engine.load_request(1, [1])


def call_to_the_end(served: Served, method: str, request: Any) -> None:
    reply = served.method(method)(request, timeout=PATIENCE_S)
    if method.endswith("/Watch"):
        list(reply)


def assert_refused(served: Served, method: str, request: Any, *reasons: str) -> None:
    before = served.books()
    with pytest.raises(grpc.RpcError) as refusal:
        call_to_the_end(served, method, request)
    code, found, facts = refused(refusal.value)
    assert found in reasons
    assert code == CODE_NAMES[found]
    assert facts["next_step"]
    assert served.books() == before


def test_every_documented_refusal_has_a_case() -> None:
    assert documented() <= CASES.keys() | ENDS_OF_STREAMS
    everywhere = {"INVALID_REQUEST", "NO_SUCH_SESSION"}
    assert {case for case in CASES if case[1] not in everywhere} <= documented()


def test_every_call_that_names_a_session_is_tried_without_one() -> None:
    naming = {
        f"{CACHE}/{method.name}"
        for method in SERVICES[CACHE].methods
        if "session_id" in method.input_type.fields_by_name
    }
    tried = {method for method, reason in CASES if reason == "NO_SUCH_SESSION"}
    assert tried == naming - {f"{CACHE}/CloseSession"}


@pytest.mark.parametrize(("method", "reason"), CASES)
def test_a_refusal_is_documented_and_changes_nothing(method: str, reason: str) -> None:
    with served() as daemon:
        request = CASES[method, reason](daemon)
        assert_refused(daemon, method, request, reason)


@pytest.mark.parametrize("method", STARTING)
def test_nothing_is_taken_before_the_pool_is_there(method: str) -> None:
    service, name = method.split("/")
    described = SERVICES[service].methods_by_name[name].input_type
    request = message_factory.GetMessageClass(described)()
    if isinstance(request, cache_pb2.OpenSessionRequest):
        request.identity.CopyFrom(identity())
    with served(ready=False) as daemon:
        assert_refused(daemon, method, request, "NOT_READY")


@pytest.mark.parametrize("name", NAMING_A_SESSION)
def test_there_is_no_session_before_the_pool_is_there(name: str) -> None:
    with served(ready=False) as daemon:
        request = NAMING_A_SESSION[name](session_id=1)
        assert_refused(daemon, f"{CACHE}/{name}", request, "NOT_READY", "NO_SUCH_SESSION")


@pytest.mark.parametrize("method", DRAINING)
def test_nothing_new_is_taken_while_draining(method: str) -> None:
    with served() as daemon:
        request = good_request(daemon, method)
        daemon.daemon.drain(0)
        assert_refused(daemon, method, request, "DRAINING")


def test_a_stream_says_that_a_newer_one_took_its_place() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        request = cache_pb2.WatchRequest(session_id=engine.session_id)
        older = daemon.cache.Watch(request)
        next(older)
        newer = daemon.cache.Watch(request)
        next(newer)
        with pytest.raises(grpc.RpcError) as refusal:
            list(older)
        assert refused(refusal.value)[:2] == ("ABORTED", "STREAM_REPLACED")
        newer.cancel()


def test_a_stream_says_that_the_daemon_shuts_down() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        stream = daemon.cache.Watch(cache_pb2.WatchRequest(session_id=engine.session_id))
        next(stream)
        daemon.daemon.drain(0)
        messages: list[cache_pb2.Event] = []
        with pytest.raises(grpc.RpcError) as refusal:
            messages.extend(event for message in stream for event in message.events)
        assert refused(refusal.value)[:2] == ("UNAVAILABLE", "DRAINING")


def test_a_stream_says_that_its_session_has_ended() -> None:
    with served() as daemon, running_process(["sleep", "3600"]) as process:
        request = cache_pb2.OpenSessionRequest(identity=identity(), process=named(process.pid))
        session_id = daemon.cache.OpenSession(request).session_id
        stream = daemon.cache.Watch(cache_pb2.WatchRequest(session_id=session_id))
        next(stream)
        process.kill()
        with pytest.raises(grpc.RpcError) as refusal:
            list(stream)
        assert refused(refusal.value)[:2] == ("NOT_FOUND", "NO_SUCH_SESSION")


def named(pid: int) -> identity_pb2.Process:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return identity_pb2.Process(
        pid=pid,
        pid_namespace=Path("/proc/self/ns/pid").stat().st_ino,
        start_time_ticks=int(after_name[19]),
    )
