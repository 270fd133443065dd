"""Whatever arrives, only documented errors leave; a refused call changes nothing; the daemon lives."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvstow.v1 import admin_pb2, cache_pb2, debug_pb2, transfer_pb2
from rpc.rig import Engine, Served, config, identity, key, refused, served
from rpc.test_every_refusal import CODE_NAMES, SERVICES, documented
from support.waiting import DEADLINE_S, wait_for

LIMIT_S = DEADLINE_S
LONG_S = 3600.0
EVERYWHERE = {"INVALID_REQUEST", "NO_SUCH_SESSION"}
DOCUMENTED = documented()
DEBUG = debug_pb2.DESCRIPTOR.services_by_name["DebugService"]
METHODS: list[MethodDescriptor] = [
    method for service in (*SERVICES.values(), DEBUG) for method in service.methods
]
LOOKING = {"CheckLedger", "AddFault", "ReleaseFault", "ListFaults"}
"""Change no books, whatever they are asked."""
NUMBERS = st.one_of(
    st.integers(0, 2),
    st.integers(0, 20),
    st.sampled_from([2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]),
)
PACKED_KEYS = st.one_of(
    st.binary(max_size=40),
    st.lists(st.integers(1, 5).map(key), max_size=4).map(b"".join),
)
fuzzing = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Served]:
    roomy = config(
        max_transfers=10_000, max_leases=10_000, session_grace_s=LONG_S, max_lease_s=LONG_S
    )
    with served(roomy) as daemon:
        yield daemon


@pytest.fixture
def engine(daemon: Served) -> Engine:
    """One that nothing has happened to yet, with three blocks stored; whatever was there before is gone."""
    engine = alone(daemon)
    stream = engine.watch()
    engine.store(1, [1, 2, 3])
    stream.cancel()
    return engine


def alone(daemon: Served) -> Engine:
    """The only engine, in a space without blocks."""
    close_all(daemon)
    engine = Engine(daemon)
    request = cache_pb2.ResetRequest(session_id=engine.session_id, wait_s=LIMIT_S)
    engine.generation = daemon.cache.Reset(request).result.generation
    return engine


def close_all(daemon: Served) -> None:
    for session in daemon.admin.ListSessions(admin_pb2.ListSessionsRequest()).sessions:
        request = cache_pb2.CloseSessionRequest(session_id=session.session_id)
        daemon.cache.CloseSession(request)


def wait_until_quiet(daemon: Served) -> None:
    """Wait until nothing changes by itself: no stream goes, no copy ends, no lease expires soon."""

    def quiet() -> bool:
        sessions = daemon.admin.ListSessions(admin_pb2.ListSessionsRequest()).sessions
        leases = daemon.admin.ListLeases(admin_pb2.ListLeasesRequest()).leases
        return not (
            any(session.streaming or session.transfer_count for session in sessions)
            or any(lease.remaining_s < LIMIT_S for lease in leases)
        )

    wait_for(quiet, "a daemon in which nothing changes by itself")


def scalar(field_type: int) -> st.SearchStrategy[Any]:
    match field_type:
        case FieldDescriptor.TYPE_STRING:
            return st.text(max_size=8)
        case FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=40)
        case FieldDescriptor.TYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.TYPE_DOUBLE:
            return st.sampled_from([0.0, 0.01, -1.0, 1e300, float("nan"), float("inf")])
        case FieldDescriptor.TYPE_ENUM:
            return st.integers(0, 5)
        case FieldDescriptor.TYPE_UINT32:
            return NUMBERS.map(lambda number: number % 2**32)
        case _:
            return NUMBERS


def fill(data: st.DataObject, message: Message) -> None:
    """Give most of the fields random values, down to the leaves."""
    for field in message.DESCRIPTOR.fields:
        if not data.draw(st.integers(0, 3)):
            continue
        value = getattr(message, field.name)
        plain = PACKED_KEYS if field.name == "keys" else scalar(field.type)
        if field.message_type is None and field.is_repeated:
            value.extend(data.draw(st.lists(plain, max_size=5)))
        elif field.message_type is None:
            setattr(message, field.name, data.draw(plain))
        elif field.is_repeated:
            for _ in range(data.draw(st.integers(0, 3))):
                fill(data, value.add())
        else:
            value.SetInParent()
            fill(data, value)


def good(method: MethodDescriptor, engine: Engine) -> Message:
    """A request that reaches deep into the daemon."""
    match method.name:
        case "OpenSession":
            return cache_pb2.OpenSessionRequest(identity=identity())
        case "AttachMemory":
            return engine.attach_request()
        case "Lookup":
            return engine.lookup_request([1, 2, 9], request="r", hold=cache_pb2.HOLD_PREFIX)
        case "Store":
            return engine.store_request(7, [4, 5], deadline_s=5)
        case "Load":
            return engine.load_request(8, [1, 2])
        case "AddFault":
            hold = debug_pb2.Fault(session_id=engine.session_id, hold=debug_pb2.HoldCopy())
            return debug_pb2.AddFaultRequest(fault=hold)
        case _:
            message = message_factory.GetMessageClass(method.input_type)()
            if "session_id" in method.input_type.fields_by_name:
                setattr(message, "session_id", engine.session_id)  # noqa: B010
            return message


def send(daemon: Served, method: MethodDescriptor, wire: bytes) -> None:
    """Send bytes; whatever is refused must be documented and must have changed nothing."""
    assert method.containing_service is not None
    name = f"{method.containing_service.name}/{method.name}"
    wait_until_quiet(daemon)
    before = daemon.books()
    try:
        if method.server_streaming:
            path = f"/kvstow.v1.{name}"
            stream = daemon.channel.unary_stream(
                path, request_serializer=bytes, response_deserializer=bytes
            )(wire, timeout=LIMIT_S)
            next(stream)
            stream.cancel()
            return
        reply: bytes = daemon.channel.unary_unary(
            f"/kvstow.v1.{name}", request_serializer=bytes, response_deserializer=bytes
        )(wire, timeout=LIMIT_S)
        if method.name == "AddFault":
            release(daemon, debug_pb2.AddFaultResponse.FromString(reply).fault_id)
        assert method.name not in LOOKING or daemon.books() == before
    except grpc.RpcError as error:
        code, reason, _ = refused(error)
        if (code, reason) != ("INTERNAL", ""):  # it cannot be decoded
            assert code == CODE_NAMES[reason]
            assert reason in EVERYWHERE or (name, reason) in DOCUMENTED
        assert daemon.books() == before
    assert daemon.bugs == []


def release(daemon: Served, fault_id: int) -> None:
    """End a fault, which must have been there, so that it strikes nobody else."""
    request = debug_pb2.ReleaseFaultRequest(fault_id=fault_id)
    assert daemon.debug.ReleaseFault(request).released


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method.name))
@fuzzing
@given(data=st.data())
def test_no_message_does_harm(
    daemon: Served, engine: Engine, method: MethodDescriptor, data: st.DataObject
) -> None:
    message = message_factory.GetMessageClass(method.input_type)()
    fill(data, message)
    if "session_id" in method.input_type.fields_by_name and method.name != "CloseSession":
        named = st.sampled_from([engine.session_id] * 3 + [0, 999])
        setattr(message, "session_id", data.draw(named))  # noqa: B010
    if "generation" in method.input_type.fields_by_name:
        current = st.sampled_from([engine.generation] * 3 + [0, 999])
        setattr(message, "generation", data.draw(current))  # noqa: B010
    send(daemon, method, message.SerializeToString())


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method.name))
@fuzzing
@given(splices=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=6)), max_size=4))
def test_no_bytes_do_harm(
    daemon: Served, engine: Engine, method: MethodDescriptor, splices: list[tuple[int, bytes]]
) -> None:
    wire = bytearray(good(method, engine).SerializeToString())
    for at, piece in splices:
        at %= len(wire) + 1
        wire[at : at + len(piece)] = piece
    if method.name == "CloseSession":
        wire = bytearray(b"\x08\x00")
    send(daemon, method, bytes(wire))


@fuzzing
@given(data=st.data())
def test_whatever_fault_strikes_a_store_it_ends(data: st.DataObject) -> None:
    fault = debug_pb2.Fault(kind=transfer_pb2.TRANSFER_KIND_STORE)
    action = getattr(fault, data.draw(st.sampled_from(["hold", "fail", "delay"])))
    action.SetInParent()
    fill(data, action)
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        try:
            added = daemon.debug.AddFault(debug_pb2.AddFaultRequest(fault=fault))
        except grpc.RpcError as error:
            assert refused(error)[1] == "INVALID_REQUEST"  # noqa: PT017 - or it is added
        else:
            daemon.cache.Store(engine.store_request(1, [1, 2]))
            release(daemon, added.fault_id)
            assert engine.report().transfer_id == 1
        daemon.books()
        assert daemon.bugs == []


def test_afterwards_the_daemon_still_works(daemon: Served) -> None:
    daemon.books()
    after = alone(daemon)
    after.watch()
    assert after.store(1, [1, 2]).state == transfer_pb2.TRANSFER_STATE_DONE
    assert daemon.cache.Lookup(after.lookup_request([1, 2, 3])).groups[0].hit_count == 2
