"""What is another tenant's does not exist: not to be found, loaded, reset or seen, and answered as what never was."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from kvstow.server.daemon.guard import Guard
from kvstow.server.rpc.gate import NAMING_A_SESSION
from kvstow.v1 import admin_pb2, cache_pb2, debug_pb2, transfer_pb2
from rpc.rig import Engine, identity, metadata, refused
from security.rig import ADMINISTRATOR, ENGINE_A, ENGINE_B, READER, Guarded, guarded
from support.memory import shared_directory
from support.waiting import DEADLINE_S, wait_for

KEYS = [1, 2, 3]
LIMIT_S = DEADLINE_S
Request = Callable[[Engine], Any]

REQUESTS: dict[str, Request] = {
    "CloseSession": lambda engine: cache_pb2.CloseSessionRequest(),
    "AttachMemory": lambda engine: engine.attach_request(),
    "DetachMemory": lambda engine: cache_pb2.DetachMemoryRequest(),
    "Lookup": lambda engine: engine.lookup_request(KEYS),
    "Store": lambda engine: engine.store_request(50, [4, 5]),
    "Load": lambda engine: engine.load_request(51, KEYS),
    "Release": lambda engine: cache_pb2.ReleaseRequest(lease_ids=[1]),
    "Cancel": lambda engine: cache_pb2.CancelRequest(transfer_ids=[1]),
    "Reset": lambda engine: cache_pb2.ResetRequest(),
    "Watch": lambda engine: cache_pb2.WatchRequest(),
    "Acknowledge": lambda engine: cache_pb2.AcknowledgeRequest(sequence=1),
}
"""For each method one that would succeed if the session were the caller's."""


@pytest.fixture
def daemon() -> Iterator[Guarded]:
    with shared_directory() as directory, guarded(directory) as daemon:
        yield daemon


@pytest.fixture
def a(daemon: Guarded) -> Engine:
    """Tenant a's engine, with something stored."""
    engine = daemon.engine(ENGINE_A)
    engine.watch()
    assert engine.store(1, KEYS).state == transfer_pb2.TRANSFER_STATE_DONE
    return engine


def ending(daemon: Guarded, token: str, method: str, request: Any) -> tuple[Any, ...]:
    """Everything that a caller sees of the end of a call."""
    stub = daemon.cache(token)
    if method == "Watch":
        stream = stub.Watch(request, timeout=LIMIT_S)
        with pytest.raises(grpc.RpcError) as refusal:
            next(stream)
        return seen(refusal.value)
    call = {name: getattr(stub, name) for name in REQUESTS}[method]
    try:
        reply, ended = call.with_call(request, timeout=LIMIT_S)
    except grpc.RpcError as refusal:
        return seen(refusal)
    return (reply.SerializeToString(), metadata(ended))


def seen(refusal: grpc.RpcError) -> tuple[Any, ...]:
    assert isinstance(refusal, grpc.Call)
    return refusal.code(), refusal.details(), metadata(refusal), refused(refusal)


def without(number: int, ended: tuple[Any, ...]) -> str:
    """The same, whatever the number of the session was."""
    return repr(ended).replace(str(number), "N")


def test_the_table_below_has_every_method_that_names_a_session() -> None:
    assert {method.rpartition("/")[2] for method in NAMING_A_SESSION} == set(REQUESTS)


@pytest.mark.parametrize("method", REQUESTS)
def test_a_session_of_another_tenant_is_answered_as_one_that_never_was(
    daemon: Guarded, a: Engine, method: str
) -> None:
    request = REQUESTS[method](a)
    before = daemon.served.books()
    ended = {}
    for number in (a.session_id, a.session_id + 7):  # as many digits; their length tells nothing
        request.session_id = number
        ended[number] = without(number, ending(daemon, ENGINE_B, method, request))
    assert len(set(ended.values())) == 1
    assert daemon.served.books() == before
    expected = "NO_SUCH_SESSION" if method != "CloseSession" else daemon.served.daemon.boot_id
    assert expected in ended[a.session_id]


@pytest.mark.parametrize("method", REQUESTS)
def test_neither_waits_for_the_books(
    daemon: Guarded, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """So how long the answer takes does not depend on what is there, nor on what others do with it."""
    a = daemon.engine(ENGINE_A)
    b = daemon.engine(ENGINE_B)
    entered: list[str] = []
    enter = Guard.__enter__

    def watched(guard: Guard) -> Any:
        entered.append(threading.current_thread().name)
        return enter(guard)

    monkeypatch.setattr(Guard, "__enter__", watched)
    request = REQUESTS[method](a)
    for number in (a.session_id, a.session_id + 7):
        request.session_id = number
        ending(daemon, ENGINE_B, method, request)
    assert not [name for name in entered if name.startswith("rpc")]
    daemon.cache(ENGINE_B).Lookup(b.lookup_request(KEYS))
    assert [name for name in entered if name.startswith("rpc")]


@pytest.mark.parametrize("method", REQUESTS)
def test_a_wrong_request_about_it_is_answered_as_one_about_nothing(
    daemon: Guarded, a: Engine, method: str
) -> None:
    """What is wrong with a request is found behind the question whose session it is."""
    request = REQUESTS[method](a)
    for field in request.DESCRIPTOR.fields:
        if field.name in ("wait_s", "lease_ttl_s", "deadline_s"):
            setattr(request, field.name, -1)
        if field.name in ("groups", "regions"):
            request.ClearField(field.name)
    ended = set()
    for number in (a.session_id, a.session_id + 7):
        request.session_id = number
        ended.add(without(number, ending(daemon, ENGINE_B, method, request)))
    assert len(ended) == 1


@pytest.mark.parametrize("method", REQUESTS)
def test_the_same_request_reaches_the_books_for_whoever_owns_the_session(
    daemon: Guarded, a: Engine, method: str
) -> None:
    """Otherwise the refusals above would show nothing."""
    request = REQUESTS[method](a)
    request.session_id = a.session_id
    if method == "Watch":
        stream = daemon.cache(ENGINE_A).Watch(request, timeout=LIMIT_S)
        assert next(stream).boot_id
        stream.cancel()
        return
    ended = ending(daemon, ENGINE_A, method, request)
    attached_already = method == "AttachMemory" and "RANK_ATTACHED" in repr(ended)
    assert isinstance(ended[0], bytes) or attached_already


def test_tenants_never_hit_each_other_s_blocks(daemon: Guarded, a: Engine) -> None:
    assert daemon.cache(ENGINE_A).Lookup(a.lookup_request(KEYS)).groups[0].hit_count == 3
    b = daemon.engine(ENGINE_B)
    assert b.space_id != a.space_id
    assert daemon.cache(ENGINE_B).Lookup(b.lookup_request(KEYS)).groups[0].hit_count == 0
    with pytest.raises(grpc.RpcError) as refusal:
        daemon.cache(ENGINE_B).Load(b.load_request(1, KEYS))
    assert refused(refusal.value)[1] == "KEY_NOT_READY"
    states = daemon.cache(ENGINE_B).Lookup(b.lookup_request(KEYS, want_states=True))
    nothing = daemon.cache(ENGINE_B).Lookup(b.lookup_request([7, 8, 9], want_states=True))
    assert states == nothing


@pytest.mark.parametrize("token", [ENGINE_B, ADMINISTRATOR])
def test_the_token_names_the_tenant_unless_the_engine_does(daemon: Guarded, token: str) -> None:
    named = identity()
    opened = daemon.cache(token).OpenSession(cache_pb2.OpenSessionRequest(identity=named))
    spaces = daemon.admin(READER).ListSpaces(admin_pb2.ListSpacesRequest()).spaces
    (space,) = [space for space in spaces if space.space_id == opened.space_id]
    assert space.identity.tenant == ("b" if token == ENGINE_B else "")


def test_an_engine_cannot_open_a_session_for_another_tenant(daemon: Guarded, a: Engine) -> None:
    named = identity()
    named.tenant = "a"
    request = cache_pb2.OpenSessionRequest(identity=named)
    before = daemon.served.books()
    endings = set()
    for tenant in ("a", "nobody-s"):
        request.identity.tenant = tenant
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.cache(ENGINE_B).OpenSession(request)
        code, reason, facts = refused(refusal.value)
        assert (code, reason, facts["tenant"]) == ("PERMISSION_DENIED", "NOT_PERMITTED", "b")
        endings.add(repr(seen(refusal.value)).replace(repr(tenant), "T"))
    assert daemon.served.books() == before
    request.identity.tenant = "a"
    assert daemon.cache(ENGINE_A).OpenSession(request).space_id == a.space_id


def test_leases_of_another_tenant_cannot_be_ended(daemon: Guarded, a: Engine) -> None:
    hold = a.lookup_request(KEYS, hold=cache_pb2.HOLD_PREFIX, request="r")
    lease = daemon.cache(ENGINE_A).Lookup(hold).lease_id
    b = daemon.engine(ENGINE_B)
    b.watch()
    b.store(1, [8])
    for number in (lease, lease + 100):
        request = cache_pb2.ReleaseRequest(session_id=b.session_id, lease_ids=[number])
        assert daemon.cache(ENGINE_B).Release(request).released_count == 0
    daemon.cache(ENGINE_B).Load(b.load_request(2, [8], lease_id=lease))
    b.report()
    leases = daemon.admin(READER).ListLeases(admin_pb2.ListLeasesRequest()).leases
    assert [found.lease_id for found in leases] == [lease]


def listings(daemon: Guarded, token: str) -> list[list[int]]:
    admin = daemon.admin(token)
    return [
        [found.space_id for found in admin.ListSpaces(admin_pb2.ListSpacesRequest()).spaces],
        [
            found.session_id
            for found in admin.ListSessions(admin_pb2.ListSessionsRequest()).sessions
        ],
        [
            found.session_id
            for found in admin.ListTransfers(admin_pb2.ListTransfersRequest()).transfers
        ],
        [found.session_id for found in admin.ListLeases(admin_pb2.ListLeasesRequest()).leases],
    ]


def test_an_engine_sees_its_tenant_s_rows_alone(daemon: Guarded, a: Engine) -> None:
    hold = a.lookup_request(KEYS, hold=cache_pb2.HOLD_PREFIX, request="r")
    daemon.cache(ENGINE_A).Lookup(hold)
    b = daemon.engine(ENGINE_B)
    fault = debug_pb2.Fault(hold=debug_pb2.HoldCopy())
    added = daemon.served.debug.AddFault(debug_pb2.AddFaultRequest(fault=fault))
    daemon.cache(ENGINE_A).Store(a.store_request(2, [5]))

    space, session = a.space_id, a.session_id
    assert listings(daemon, ENGINE_A) == [[space], [session], [session], [session]]
    assert listings(daemon, ENGINE_B) == [[b.space_id], [b.session_id], [], []]
    everything = [[space, b.space_id], [session, b.session_id], [session], [session]]
    assert listings(daemon, READER) == everything
    assert listings(daemon, ADMINISTRATOR) == everything
    listed = daemon.admin(ENGINE_B).ListTransfers(admin_pb2.ListTransfersRequest())
    assert listed.total_count == 0
    daemon.served.debug.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=added.fault_id))
    a.report()


def test_an_engine_is_told_of_a_copy_whose_space_is_gone(daemon: Guarded, a: Engine) -> None:
    """It must not believe that nothing touches its memory any more because nobody knows whose copy that is."""
    fault = debug_pb2.Fault(hold=debug_pb2.HoldCopy())
    added = daemon.served.debug.AddFault(debug_pb2.AddFaultRequest(fault=fault))
    daemon.cache(ENGINE_A).Store(a.store_request(2, [5]))
    wait_for(lambda: daemon.served.faults.held(), "the held copy")
    closing = cache_pb2.CloseSessionRequest(session_id=a.session_id)
    daemon.cache(ENGINE_A).CloseSession(closing)
    drop = admin_pb2.DropSpaceRequest(space_id=a.space_id)
    daemon.served.admin.DropSpace(drop)

    request = admin_pb2.ListTransfersRequest()
    listed = daemon.admin(ENGINE_A).ListTransfers(request)
    assert (len(listed.transfers), listed.total_count) == (0, 1)
    assert daemon.admin(READER).ListTransfers(request).total_count == 1
    daemon.served.debug.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=added.fault_id))
    wait_for(
        lambda: daemon.admin(ENGINE_A).ListTransfers(request).total_count == 0,
        "the end of the copy",
    )
