"""What a peer may try over the network: none of it takes the daemon away from others."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import (  # type: ignore[import-untyped]
    health,
    health_pb2,
    health_pb2_grpc,
)
from structlog.testing import capture_logs

from kvstow.server.rpc.alarm import PERIOD_S, Alarm
from kvstow.server.rpc.probes import ProbePort
from kvstow.server.rpc.status import Unauthenticated
from kvstow.v1 import admin_pb2, cache_pb2
from rpc.rig import Served, config, refused, served
from security.rig import ADMINISTRATOR, ENGINE_A, ENGINE_B, READER, Guarded, guarded
from support.clock import ManualClock
from support.memory import shared_directory
from support.waiting import wait_for

LIMIT_S = 60.0
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
LOOKUP = "/kvstow.v1.CacheService/Lookup"
CHECK = "/grpc.health.v1.Health/Check"


class Silent:
    """Calls that promise a request and send none, until they are let go."""

    def __init__(self, channel: grpc.Channel, method: str, token: str, count: int) -> None:
        self._let_go = threading.Event()
        call = channel.stream_stream(method, request_serializer=bytes, response_deserializer=bytes)
        shown = (("authorization", f"Bearer {token}"),) if token else ()
        self.calls = [call(self._nothing(), timeout=LIMIT_S, metadata=shown) for _ in range(count)]

    def _nothing(self) -> Iterator[bytes]:
        self._let_go.wait()
        yield from ()

    def open_count(self) -> int:
        """How many have not ended."""
        return sum(call.is_active() for call in self.calls)

    def codes(self) -> set[grpc.StatusCode]:
        """How those ended that have."""
        return {call.code() for call in self.calls if not call.is_active()}

    def end(self) -> None:
        """Let them go."""
        self._let_go.set()
        for call in self.calls:
            call.cancel()


@pytest.fixture
def daemon() -> Iterator[Guarded]:
    with shared_directory() as directory, guarded(directory, worker_count=8) as daemon:
        yield daemon


def works(daemon: Guarded, token: str) -> bool:
    request = cache_pb2.GetServerInfoRequest()
    return bool(daemon.cache(token).GetServerInfo(request, timeout=LIMIT_S).boot_id)


def test_who_shows_no_token_keeps_no_thread_waiting_for_a_request(daemon: Guarded) -> None:
    silent = Silent(daemon.bare, LOOKUP, "", 40)
    wait_for(lambda: silent.open_count() == 0, "the end of all calls")
    assert silent.codes() == {grpc.StatusCode.UNAUTHENTICATED}
    silent.end()


@pytest.mark.parametrize(
    ("method", "token", "others"),
    [
        (LOOKUP, ENGINE_A, [ENGINE_B, READER, ADMINISTRATOR]),
        (LOOKUP, ADMINISTRATOR, [ENGINE_A, READER]),
        (CHECK, "", [ENGINE_A, ENGINE_B, READER, ADMINISTRATOR]),
    ],
    ids=["a tenant", "an administrator", "nobody"],
)
def test_who_sends_nothing_has_no_more_than_its_share_of_the_threads(
    daemon: Guarded, method: str, token: str, others: list[str]
) -> None:
    silent = Silent(daemon.bare, method, token, 16)
    wait_for(lambda: silent.open_count() < 14, "calls that are refused")
    assert silent.open_count() > 0
    assert silent.codes() == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert all(works(daemon, other) for other in others)
    if token:
        with pytest.raises(grpc.RpcError) as refusal:
            works(daemon, token)
        assert refused(refusal.value)[1] == "TOO_MANY_CALLS"
    silent.end()
    wait_for(lambda: token == "" or works_again(daemon, token), "threads for the caller")


def works_again(daemon: Guarded, token: str) -> bool:
    try:
        return works(daemon, token)
    except grpc.RpcError:
        return False


def test_a_request_that_does_not_come_ends_its_call(
    daemon: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = daemon.engine(ENGINE_B).watch()
    monkeypatch.setattr("kvstow.server.rpc.open_calls.REQUEST_S", 0.0)
    silent = Silent(daemon.bare, LOOKUP, ENGINE_A, 1)

    def ended() -> bool:
        daemon.served.server.refresh()
        return silent.open_count() == 0

    wait_for(ended, "the end of the call")
    assert silent.codes() == {grpc.StatusCode.CANCELLED}
    assert watching.is_active()  # its request had come
    assert daemon.served.bugs == []
    silent.end()


def test_one_connection_s_streams_leave_threads_for_others(daemon: Guarded) -> None:
    engine = daemon.engine(ENGINE_A)
    stub = daemon.cache(ENGINE_A)
    request = cache_pb2.ResetRequest(session_id=engine.session_id)
    calls = [stub.Reset.future(request, timeout=LIMIT_S) for _ in range(50)]
    assert works(daemon, ENGINE_B)
    ended = [call.exception(LIMIT_S) for call in calls]
    reasons = {refused(error)[1] for error in ended if isinstance(error, grpc.RpcError)}
    assert reasons <= {"TOO_MANY_CALLS"}
    assert None in ended


def test_who_sends_nothing_to_the_port_of_the_probes_does_not_keep_them_out() -> None:
    servicer = health.HealthServicer()
    probes = ProbePort(servicer, "127.0.0.1:0")
    probes.start()
    with grpc.insecure_channel(f"127.0.0.1:{probes.port}") as channel:
        silent = Silent(channel, CHECK, "", 40)
        check = health_pb2_grpc.HealthStub(channel).Check
        request = health_pb2.HealthCheckRequest()
        assert check(request, timeout=LIMIT_S).status == health_pb2.HealthCheckResponse.SERVING
        wait_for(lambda: silent.open_count() == 0, "the end of the calls")
        assert silent.codes() == {grpc.StatusCode.CANCELLED}
        for nonsense in ([], [b"\xff"]):
            call: Any = channel.stream_unary(CHECK, None, None)
            with pytest.raises(grpc.RpcError) as refusal:
                call(iter(nonsense), timeout=LIMIT_S)
            assert refused(refusal.value)[0] == "INVALID_ARGUMENT"
        silent.end()
    probes.stop()


def test_a_stream_that_is_not_read_keeps_its_own_thread_and_no_other(directory: Path) -> None:
    settings = config(max_sessions=4, max_spaces=4, max_leases=10_000, max_events=10_000)
    with guarded(directory, settings, worker_count=8) as daemon:
        a, b = daemon.engine(ENGINE_A), daemon.engine(ENGINE_B)
        a.watch().cancel()
        stub = daemon.cache(ENGINE_A)
        stub.Store(a.store_request(1, [1]))
        wait_for(lambda: stub.Lookup(a.lookup_request([1])).groups[0].hit_count, "the stored key")
        watch = cache_pb2.WatchRequest(session_id=a.session_id)
        unread = stub.Watch(watch, timeout=10 * LIMIT_S)
        assert next(unread).boot_id
        names = [f"{number:0>1000}" for number in range(300)]  # more than a stream takes in unread
        for name in names:
            hold = a.lookup_request(
                [1], hold=cache_pb2.HOLD_PREFIX, request=name, lease_ttl_s=0.001
            )
            stub.Lookup(hold)
        wait_for(
            lambda: not daemon.admin(READER).ListLeases(admin_pb2.ListLeasesRequest()).leases,
            "the end of the leases",
        )
        assert works(daemon, ENGINE_A)
        b.watch()
        assert daemon.cache(ENGINE_B).Lookup(b.lookup_request([1])).groups
        expired: set[str] = set()
        while len(expired) < 300:
            expired |= {event.lease_expired.request for event in next(unread).events} - {""}
        assert expired == set(names)
        unread.cancel()


@pytest.fixture
def open_daemon() -> Iterator[Served]:
    with served(config(), tcp="127.0.0.1:0") as daemon:
        yield daemon


def raw(daemon: Served) -> Any:
    return daemon.channel.unary_unary(
        "/kvstow.v1.CacheService/GetServerInfo",
        request_serializer=bytes,
        response_deserializer=bytes,
    )


def long_request(size_bytes: int) -> bytes:
    """A request that is well formed, and so long."""
    return cache_pb2.LookupRequest(request="x" * size_bytes).SerializeToString()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_is_too_large_as_soon_as_it_is_unpacked(
    open_daemon: Served, compression: grpc.Compression
) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        raw(open_daemon)(long_request(100 << 20), compression=compression, timeout=LIMIT_S)
    assert refused(refusal.value)[:2] == ("RESOURCE_EXHAUSTED", "")
    assert raw(open_daemon)(b"", timeout=LIMIT_S)


def test_metadata_is_bounded(open_daemon: Served) -> None:
    entries = tuple((f"key-{number}", "x" * 1000) for number in range(64))
    with pytest.raises(grpc.RpcError) as refusal:
        raw(open_daemon)(b"", metadata=entries, timeout=LIMIT_S)
    assert refused(refusal.value)[:2] == ("RESOURCE_EXHAUSTED", "")
    assert raw(open_daemon)(b"", timeout=LIMIT_S)


def test_who_floods_the_address_with_connections_does_not_reach_the_socket(
    open_daemon: Served,
) -> None:
    address = ("127.0.0.1", open_daemon.port)
    flood: list[socket.socket] = []
    try:
        flood += [socket.create_connection(address, LIMIT_S) for _ in range(100)]
        wait_for(lambda: any(is_closed(one) for one in flood), "a connection that is refused")
        assert not all(is_closed(one) for one in flood)
        assert raw(open_daemon)(b"", timeout=LIMIT_S)
    finally:
        for one in flood:
            one.close()
    with grpc.insecure_channel(f"127.0.0.1:{open_daemon.port}") as channel:
        grpc.channel_ready_future(channel).result(LIMIT_S)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it; what it has sent is left where it is."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", bytes(100_000)]
)
def test_what_is_no_http2_is_dropped(open_daemon: Served, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", open_daemon.port), LIMIT_S) as connection:
        connection.sendall(noise)
        wait_for(lambda: drained(connection), "the end of the connection")
    assert raw(open_daemon)(b"", timeout=LIMIT_S)
    request = admin_pb2.CheckLedgerRequest()
    assert open_daemon.admin.CheckLedger(request).ok


def drained(connection: socket.socket) -> bool:
    try:
        return connection.recv(1 << 16) == b""
    except ConnectionError:
        return True


def test_who_is_refused_is_in_the_log_and_cannot_fill_it() -> None:
    clock = ManualClock()
    alarm = Alarm(clock)
    with capture_logs() as lines:
        for _ in range(1000):
            alarm.refused(Unauthenticated("the call shows no token"), LOOKUP, "ipv4:192.0.2.1:7")
        clock.advance(PERIOD_S)
        alarm.refused(Unauthenticated("the call shows no token"), LOOKUP, "ipv4:192.0.2.1:7")
    assert [(line["reason"], line["others_before"]) for line in lines] == [
        ("UNAUTHENTICATED", 0),
        ("UNAUTHENTICATED", 999),
    ]
    assert lines[0]["peer"] == "ipv4:192.0.2.1:7"
