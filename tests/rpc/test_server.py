"""What the server promises around every call: who answered, health, sockets, threads, messages."""

import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]
    reflection_pb2,
    reflection_pb2_grpc,
)

from kvstow.server.core.types import SessionId
from kvstow.server.daemon import Daemon
from kvstow.server.device.base import DeviceHealth, Direction
from kvstow.server.rpc.options import ServerOptions
from kvstow.server.rpc.server import DEVICE, LIVENESS, READINESS, RpcServer
from kvstow.server.rpc.unix_socket import SocketError
from kvstow.v1 import cache_pb2, cache_pb2_grpc, debug_pb2
from rpc.rig import PATIENCE_S, Engine, Served, metadata, refused, served
from support.waiting import wait_for

BOOT_ID = "kvstow-boot-id"


def raw_method(daemon: Served, name: str) -> Any:
    """A method that sends its bytes as they are."""
    return daemon.channel.unary_unary(
        f"/kvstow.v1.CacheService/{name}", request_serializer=bytes, response_deserializer=bytes
    )


class Buggy(Daemon):
    """A daemon with a bug in one call."""

    def release(self, session: SessionId, leases: Any) -> int:
        raise ZeroDivisionError("a bug")


def test_every_reply_says_which_process_answered() -> None:
    with served() as daemon:
        request = cache_pb2.GetServerInfoRequest()
        info, call = daemon.cache.GetServerInfo.with_call(request)
        assert metadata(call)[BOOT_ID] == info.boot_id == daemon.daemon.boot_id
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.cache.Lookup(cache_pb2.LookupRequest())
        assert metadata(refusal.value)[BOOT_ID] == info.boot_id


def test_a_call_for_another_process_never_reaches_a_session_of_this_one() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        request = engine.store_request(1, [1])
        before = daemon.books()
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.cache.Store(request, metadata=[(BOOT_ID, "another")])
        code, reason, facts = refused(refusal.value)
        assert (code, reason) == ("NOT_FOUND", "NO_SUCH_SESSION")
        assert facts["boot_id"] == daemon.daemon.boot_id
        assert daemon.books() == before
        daemon.cache.Store(request, metadata=[(BOOT_ID, daemon.daemon.boot_id)])


def test_a_bug_is_reported_under_the_number_that_the_client_is_told() -> None:
    with served(daemon_class=Buggy) as daemon:
        request = cache_pb2.ReleaseRequest(session_id=1)
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.cache.Release(request)
        code, reason, facts = refused(refusal.value)
        assert (code, reason) == ("INTERNAL", "INTERNAL")
        ((where, error),) = daemon.bugs
        assert (
            where == f"/kvstow.v1.CacheService/Release, correlation id {facts['correlation_id']}"
        )
        assert isinstance(error, ZeroDivisionError)
        assert "a bug" not in str(refusal.value)
        Engine(daemon)


def test_every_call_is_measured_with_its_code() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        daemon.observed.clear()
        engine.watch().cancel()
        with pytest.raises(grpc.RpcError):
            daemon.cache.Lookup(engine.lookup_request([]))
        daemon.cache.Lookup(engine.lookup_request([1]))
        with pytest.raises(grpc.RpcError):
            raw_method(daemon, "Nothing")(b"")
        wait_for(lambda: len(daemon.observed) == 3, "three measured calls")
        calls = {(method.rpartition("/")[2], code) for method, code, _ in daemon.observed}
        lookups = {("Lookup", "INVALID_ARGUMENT"), ("Lookup", "OK")}
        assert lookups < calls
        assert {method for method, _ in calls} == {"Lookup", "Watch"}
        assert all(0 <= seconds < PATIENCE_S for _, _, seconds in daemon.observed)


def test_health_says_whether_work_is_taken_and_whether_the_process_lives() -> None:
    with served(ready=False) as daemon:
        health = health_pb2_grpc.HealthStub(daemon.channel)

        def status(service: str) -> Any:
            reply = health.Check(health_pb2.HealthCheckRequest(service=service))
            return health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)

        assert [status(name) for name in (READINESS, LIVENESS, DEVICE)] == [
            "NOT_SERVING",
            "SERVING",
            "SERVING",
        ]
        daemon.server.set_ready(True)
        daemon.server.set_live(False)
        assert [status(name) for name in (READINESS, LIVENESS)] == ["SERVING", "NOT_SERVING"]


def test_health_says_which_device_does_not_answer() -> None:
    with served() as daemon:
        health = health_pb2_grpc.HealthStub(daemon.channel)

        def serving(service: str) -> bool:
            reply = health.Check(health_pb2.HealthCheckRequest(service=service))
            return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

        depths = dict.fromkeys(Direction, 0)
        well = DeviceHealth("gpu-1", "one", True, "", depths)
        hanging = DeviceHealth("gpu-2", "two", False, "a copy has not returned", depths)
        status = replace(daemon.daemon.status(), devices=[well, hanging])
        daemon.server.set_devices(status)
        names = (DEVICE, f"{DEVICE}/gpu-1", f"{DEVICE}/gpu-2")
        assert [serving(name) for name in names] == [False, True, False]
        daemon.server.set_devices(replace(status, devices=[well]))
        assert serving(DEVICE)
        daemon.server.set_devices(replace(status, devices=[well], stuck_count=1))
        assert [serving(name) for name in names[:2]] == [False, True]


@pytest.mark.parametrize("debug", [True, False])
def test_reflection_names_the_services_there_are(debug: bool) -> None:
    with served(debug=debug) as daemon:
        stub = reflection_pb2_grpc.ServerReflectionStub(daemon.channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (reply,) = stub.ServerReflectionInfo(iter([request]))
        names = {service.name for service in reply.list_services_response.service}
        assert {"kvstow.v1.CacheService", "kvstow.v1.AdminService"} < names
        assert "grpc.health.v1.Health" in names
        assert ("kvstow.v1.DebugService" in names) is debug


def first_code(stream: Any) -> grpc.StatusCode:
    """OK if the stream begins, else what it was refused with."""
    try:
        next(stream)
    except grpc.RpcError as refusal:
        return refusal.code()
    return grpc.StatusCode.OK


def test_open_reflection_streams_leave_threads_for_the_others() -> None:
    release = threading.Event()

    def asking() -> Iterator[Any]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        release.wait()

    with served() as daemon:
        stub = reflection_pb2_grpc.ServerReflectionStub(daemon.channel)
        streams = [stub.ServerReflectionInfo(asking(), timeout=PATIENCE_S) for _ in range(30)]
        codes = {first_code(stream) for stream in streams}
        assert codes == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        info = cache_pb2.GetServerInfoRequest()
        assert daemon.cache.GetServerInfo(info, timeout=PATIENCE_S).boot_id
        release.set()
        for stream in streams:
            stream.cancel()


def test_the_debug_service_is_off_unless_asked_for() -> None:
    with served(debug=False) as daemon:
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.debug.ListFaults(debug_pb2.ListFaultsRequest())
        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_the_socket_is_its_owners_alone_and_goes_with_the_server() -> None:
    with served() as daemon:
        assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
        assert daemon.port == 0
        daemon.server.stop(0)
        assert not daemon.socket.exists()


def test_a_second_server_on_the_socket_says_who_holds_it() -> None:
    with served() as daemon:
        options = ServerOptions(daemon.socket)
        second = RpcServer(
            daemon.daemon, options, observe=lambda *_: None, report_bug=lambda *_: None
        )
        with pytest.raises(SocketError, match="is served by process"):
            second.start()
        second.stop(0)
        daemon.cache.GetServerInfo(cache_pb2.GetServerInfoRequest())

        daemon.server.stop(0)
        third = RpcServer(
            daemon.daemon, options, observe=lambda *_: None, report_bug=lambda *_: None
        )
        third.start()
        with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
            stub = cache_pb2_grpc.CacheServiceStub(channel)
            assert stub.GetServerInfo(cache_pb2.GetServerInfoRequest()).version
        third.stop(0)


def test_tcp_is_served_when_asked_for() -> None:
    with served(tcp="127.0.0.1:0") as daemon:
        with grpc.insecure_channel(f"127.0.0.1:{daemon.port}") as channel:
            stub = cache_pb2_grpc.CacheServiceStub(channel)
            info = stub.GetServerInfo(cache_pb2.GetServerInfoRequest(), timeout=PATIENCE_S)
        assert info.boot_id == daemon.daemon.boot_id


def test_an_address_that_is_taken_is_one_line() -> None:
    with served(tcp="127.0.0.1:0") as daemon:
        options = ServerOptions(None, f"127.0.0.1:{daemon.port}")
        second = RpcServer(
            daemon.daemon, options, observe=lambda *_: None, report_bug=lambda *_: None
        )
        with pytest.raises(SocketError) as refusal:
            second.start()
        assert str(refusal.value) == (
            f"cannot listen on 127.0.0.1:{daemon.port}: Address already in use; set listen"
        )


def test_what_is_no_message_or_too_large_is_gRPCs_own_error() -> None:
    with served() as daemon:
        lookup = raw_method(daemon, "Lookup")
        with pytest.raises(grpc.RpcError) as refusal:
            lookup(b"\xff\xff")
        assert refused(refusal.value)[:2] == ("INVALID_ARGUMENT", "INVALID_REQUEST")
        with pytest.raises(grpc.RpcError) as refusal:
            lookup(bytes(9 << 20))
        assert refused(refusal.value)[:2] == ("RESOURCE_EXHAUSTED", "")
        daemon.cache.GetServerInfo(cache_pb2.GetServerInfoRequest())
