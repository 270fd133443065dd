"""Every method of every service against every kind of caller; a new method without a rule fails here."""

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]
    reflection_pb2,
    reflection_pb2_grpc,
)

from kvstow.server.rpc.access import RULES
from kvstow.v1 import admin_pb2, cache_pb2, debug_pb2
from rpc.rig import refused
from security.rig import ADMINISTRATOR, ENGINE_A, READER, STRANGER, Guarded, guarded
from support.memory import shared_directory
from support.waiting import DEADLINE_S

LIMIT_S = DEADLINE_S
CALLERS = {
    "nobody": "",
    "a stranger": STRANGER,
    "an engine": ENGINE_A,
    "a reader": READER,
    "an administrator": ADMINISTRATOR,
}
EVERYBODY = frozenset(CALLERS)
KNOWN = EVERYBODY - {"nobody", "a stranger"}
LOOKING = frozenset({"a reader", "an administrator"})
WORKING = frozenset({"an engine", "an administrator"})
ADMINISTERING = frozenset({"an administrator"})

NOBODY: frozenset[str] = frozenset()
"""The library does not carry it out."""

PERMITTED = {
    "grpc.health.v1.Health": {"Check": EVERYBODY, "List": NOBODY, "Watch": KNOWN},
    "grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": KNOWN},
    "kvstow.v1.CacheService": {
        "GetServerInfo": KNOWN,
        "OpenSession": WORKING,
        "CloseSession": WORKING,
        "AttachMemory": WORKING,
        "DetachMemory": WORKING,
        "Lookup": WORKING,
        "Store": WORKING,
        "Load": WORKING,
        "Release": WORKING,
        "Cancel": WORKING,
        "Reset": WORKING,
        "Watch": WORKING,
        "Acknowledge": WORKING,
    },
    "kvstow.v1.AdminService": {
        "ListSpaces": KNOWN,
        "ListSessions": KNOWN,
        "ListTransfers": KNOWN,
        "ListLeases": KNOWN,
        "GetStats": LOOKING,
        "GetConfiguration": LOOKING,
        "ExplainKeys": LOOKING,
        "ListMisses": LOOKING,
        "ResetSpace": ADMINISTERING,
        "ResetAll": ADMINISTERING,
        "DropSpace": ADMINISTERING,
        "CheckLedger": ADMINISTERING,
    },
    "kvstow.v1.DebugService": {
        "AddFault": ADMINISTERING,
        "ReleaseFault": ADMINISTERING,
        "ListFaults": ADMINISTERING,
    },
}
"""Written out once more, apart from the rules of the daemon."""

METHODS = [(service, method) for service, methods in PERMITTED.items() for method in methods]
OF_ENGINES = [
    (service, method)
    for service, method in METHODS
    if service.startswith("kvstow") and "an engine" in PERMITTED[service][method]
]


@pytest.fixture(scope="module")
def daemon() -> Iterator[Guarded]:
    with shared_directory() as directory, guarded(directory) as daemon:
        yield daemon


def test_every_method_that_is_served_is_in_the_table(daemon: Guarded) -> None:
    reflecting = reflection_pb2_grpc.ServerReflectionStub(daemon.bare)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    shown = (("authorization", f"Bearer {READER}"),)
    (reply,) = reflecting.ServerReflectionInfo(iter([request]), metadata=shown)
    services = {service.name for service in reply.list_services_response.service}
    pool = descriptor_pool.Default()
    methods = {
        (service, method.name)
        for service in services
        for method in pool.FindServiceByName(service).methods
    }
    assert methods == set(METHODS)
    assert set(RULES) == {
        f"/{service}/{method}"
        for service, method in METHODS
        if PERMITTED[service][method] is not NOBODY
    }


def outcome(daemon: Guarded, method: str, token: str) -> tuple[str, str]:
    """Code and reason with which an empty call ends, or its first answer comes."""
    shown = (("authorization", f"Bearer {token}"),) if token else ()
    stream = daemon.bare.stream_stream(
        method, request_serializer=bytes, response_deserializer=bytes
    )(iter([b""]), timeout=LIMIT_S, metadata=shown)
    try:
        next(stream)
    except StopIteration:
        return "OK", ""
    except grpc.RpcError as refusal:
        code, reason, _ = refused(refusal)
        return code, reason
    finally:
        stream.cancel()
    return "OK", ""


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(("service", "method"), METHODS, ids=lambda name: str(name))
def test_a_caller_may_do_what_its_role_says_and_nothing_else(
    daemon: Guarded, service: str, method: str, caller: str
) -> None:
    ended = outcome(daemon, f"/{service}/{method}", CALLERS[caller])
    if caller in PERMITTED[service][method]:
        assert ended[0] not in ("UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED")
    elif caller in KNOWN:
        assert ended == ("PERMISSION_DENIED", "NOT_PERMITTED")
    else:
        assert ended == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert daemon.served.bugs == []


@pytest.mark.parametrize(
    ("token", "role"),
    [
        (ENGINE_A, cache_pb2.ROLE_ENGINE),
        (READER, cache_pb2.ROLE_READ_ONLY),
        (ADMINISTRATOR, cache_pb2.ROLE_ADMINISTRATOR),
    ],
)
def test_a_caller_is_told_its_role(daemon: Guarded, token: str, role: cache_pb2.Role) -> None:
    info = daemon.cache(token).GetServerInfo(cache_pb2.GetServerInfoRequest())
    assert info.role == role


def test_a_method_without_a_rule_is_nobody_s(
    daemon: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = "/kvstow.v1.CacheService/GetServerInfo"
    without = {name: needs for name, needs in RULES.items() if name != method}
    monkeypatch.setattr("kvstow.server.rpc.access.RULES", without)
    assert outcome(daemon, method, ADMINISTRATOR) == ("PERMISSION_DENIED", "NOT_PERMITTED")
    assert outcome(daemon, method, "") == ("UNAUTHENTICATED", "UNAUTHENTICATED")


def test_an_engine_can_name_only_what_is_checked_to_be_its_own() -> None:
    """Ids of a space or a fault, say, would need a check of their own; leases and transfers are looked for within a session."""
    checked = {"session_id", "lease_id", "lease_ids", "transfer_id", "transfer_ids"}
    for service, method in OF_ENGINES:
        described = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method]
        fields = {field.name for field in described.input_type.fields}
        assert {name for name in fields if name.endswith(("_id", "_ids"))} <= checked, method


def test_the_scheme_may_be_written_in_any_case_and_no_other_will_do(daemon: Guarded) -> None:
    call = daemon.bare.unary_unary(
        "/kvstow.v1.CacheService/GetServerInfo",
        request_serializer=bytes,
        response_deserializer=bytes,
    )
    assert call(b"", metadata=(("authorization", f"bearer {READER}"),))
    for wrong in (READER, f"Basic {READER}", "Bearer", "Bearer ", f"Bearer {READER}x"):
        with pytest.raises(grpc.RpcError) as refusal:
            call(b"", metadata=(("authorization", wrong),))
        assert refused(refusal.value)[1] == "UNAUTHENTICATED"


def test_the_socket_may_be_let_go_without_a_token() -> None:
    with (
        shared_directory() as directory,
        guarded(directory, socket_without_token=True, tcp="127.0.0.1:0") as daemon,
    ):
        assert daemon.admin("").GetStats(admin_pb2.GetStatsRequest()).pool_bytes
        with pytest.raises(grpc.RpcError) as refusal:  # who shows one is who it says
            daemon.admin(STRANGER).GetStats(admin_pb2.GetStatsRequest())
        assert refused(refusal.value)[1] == "UNAUTHENTICATED"
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.admin(ENGINE_A).GetStats(admin_pb2.GetStatsRequest())
        assert refused(refusal.value)[1] == "NOT_PERMITTED"
        with grpc.insecure_channel(f"127.0.0.1:{daemon.served.port}") as channel:
            call = channel.unary_unary(
                "/kvstow.v1.AdminService/GetStats",
                request_serializer=bytes,
                response_deserializer=bytes,
            )
            with pytest.raises(grpc.RpcError) as refusal:
                call(b"", timeout=LIMIT_S)
            assert refused(refusal.value)[1] == "UNAUTHENTICATED"


def test_the_debug_service_is_off_for_everybody_unless_asked_for() -> None:
    with shared_directory() as directory, guarded(directory, debug=False) as daemon:
        name = debug_pb2.DESCRIPTOR.services_by_name["DebugService"].full_name
        ended = outcome(daemon, f"/{name}/ListFaults", ADMINISTRATOR)
        assert ended == ("UNIMPLEMENTED", "")
        info = cache_pb2.GetServerInfoRequest()
        assert daemon.cache(ADMINISTRATOR).GetServerInfo(info).boot_id
