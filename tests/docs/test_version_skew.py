"""docs/upgrade.md: an older client understands a newer daemon, and an older daemon a newer client, as far as it says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from client.double import Double
from kvstow.client import Callbacks, Client, Refused, SessionEvent, TransferState
from kvstow.client.errors import error_of
from kvstow.server.core import errors, events
from kvstow.server.core.types import TransferId, TransferKind
from kvstow.server.core.types import TransferState as CoreState
from kvstow.server.rpc.status import CODES
from kvstow.v1 import cache_pb2, cache_pb2_grpc, transfer_pb2
from support.client_engine import IDENTITY, PATIENT
from support.kvstowd import running_kvstowd
from support.memory import key
from support.waiting import DEADLINE_S, wait_for

LATER = bytes([0xFA, 0x3F, 4]) + b"more"
"""A field with the number 1,023, which no message has."""

NEW_STATE: Any = 99


def with_more(message: Message) -> Any:
    """The message, and a field that is not known yet."""
    assert 1023 not in message.DESCRIPTOR.fields_by_number
    message.MergeFromString(LATER)
    return message


class TooHot(errors.Refusal):
    """A refusal of a later release."""

    reason = "TOO_HOT"
    next_step = "Open a window."


class NewerDaemon(Double):
    """A daemon of a later release: every reply says more, and there are kinds of event and states that are new."""

    def GetServerInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return with_more(super().GetServerInfo(request, context))

    def OpenSession(self, request: Any, context: grpc.ServicerContext) -> Any:
        return with_more(super().OpenSession(request, context))

    def Lookup(self, request: Any, context: grpc.ServicerContext) -> Any:
        return with_more(super().Lookup(request, context))

    def Store(self, request: Any, context: grpc.ServicerContext) -> Any:
        return with_more(super().Store(request, context))

    def Watch(
        self, request: Any, context: grpc.ServicerContext
    ) -> Iterator[cache_pb2.WatchResponse]:
        for message in super().Watch(request, context):
            for event in message.events:
                self._renew(event)
            yield with_more(message)

    @staticmethod
    def _renew(event: cache_pb2.Event) -> None:
        """An overdue transfer is told by a new kind of event; what was abandoned has a new state."""
        if event.WhichOneof("kind") == "transfer_overdue":
            event.ClearField("transfer_overdue")
            with_more(event)
        elif event.transfer_ended.state == transfer_pb2.TRANSFER_STATE_ABANDONED:
            event.transfer_ended.state = NEW_STATE


@pytest.fixture
def newer(tmp_path: Path) -> Iterator[NewerDaemon]:
    daemon = NewerDaemon(tmp_path / "kvstow.sock")
    yield daemon
    daemon.stop()


@pytest.fixture
def client(newer: NewerDaemon, tmp_path: Path) -> Iterator[Client]:
    with Client(f"unix:{tmp_path / 'kvstow.sock'}", PATIENT) as connected:
        yield connected


def test_an_older_client_ignores_fields_and_skips_events(
    newer: NewerDaemon, client: Client
) -> None:
    heard: list[SessionEvent] = []
    session = client.open(IDENTITY, "older", callbacks=Callbacks(on_event=heard.append))
    assert session.lookup("request", [key(1)], budget_s=DEADLINE_S).count == 1
    transfer = session.store([key(1)], [0], session.generation, budget_s=DEADLINE_S)
    newer.stage.tell(events.TransferOverdue(TransferId(transfer.id), TransferKind.STORE, 1.0))
    newer.end(transfer.id)
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.DONE
    assert heard == []
    wait_for(lambda: newer.stage.acknowledged == 2, "the acknowledgement of both")


def test_an_older_client_believes_nothing_of_a_state_it_does_not_know(
    newer: NewerDaemon, client: Client
) -> None:
    session = client.open(IDENTITY, "older")
    transfer = session.store([key(1)], [0], session.generation, budget_s=DEADLINE_S)
    newer.end(transfer.id, CoreState.ABANDONED)
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.LOST


def test_an_older_client_passes_on_a_reason_it_does_not_know(
    newer: NewerDaemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CODES, TooHot, grpc.StatusCode.FAILED_PRECONDITION)
    session = client.open(IDENTITY, "older")
    newer.refusals["Store"] = TooHot("the room is too hot")
    with pytest.raises(Refused) as refused:
        session.store([key(1)], [0], session.generation, budget_s=DEADLINE_S)
    assert refused.value.reason == TooHot.reason
    assert refused.value.next_step == TooHot.next_step


def test_an_older_daemon_ignores_a_field_it_does_not_know(tmp_path: Path) -> None:
    with running_kvstowd(tmp_path) as daemon, grpc.insecure_channel(daemon.target) as channel:
        cache = cache_pb2_grpc.CacheServiceStub(channel)
        opened = cache.OpenSession(
            with_more(cache_pb2.OpenSessionRequest(identity=IDENTITY, name="newer"))
        )
        question = with_more(cache_pb2.LookupRequest(session_id=opened.session_id))
        question.generation = opened.generation
        question.groups.add(group=0, keys=key(1))
        assert [found.hit_count for found in cache.Lookup(question).groups] == [0]


def test_an_older_daemon_refuses_a_call_it_does_not_know(tmp_path: Path) -> None:
    with running_kvstowd(tmp_path) as daemon, grpc.insecure_channel(daemon.target) as channel:
        call: Any = channel.unary_unary("/kvstow.v1.CacheService/Later")
        with pytest.raises(grpc.RpcError) as ended:
            call(LATER, timeout=DEADLINE_S)
        status: Any = ended.value
        refused = error_of(status)
        assert isinstance(refused, Refused)
        assert refused.reason == "UNIMPLEMENTED"
