"""Core values become replies: nothing is lost and no value is without its message."""

from typing import get_args

import pytest

from kvstow.server.core import events
from kvstow.server.core.requests import Limits, OpenedSession, ServerInfo, ServerState
from kvstow.server.core.types import (
    BlockFailure,
    GroupHits,
    LeaseId,
    LookupResult,
    ResetResult,
    SessionId,
    SpaceId,
    TransferId,
    TransferKind,
    TransferPlan,
    TransferState,
)
from kvstow.server.rpc import replies
from kvstow.server.rpc.callers import Role
from kvstow.v1 import cache_pb2, reset_pb2, transfer_pb2

EVENTS: list[tuple[events.Event, str]] = [
    (events.TransferEnded(TransferId(7), TransferKind.LOAD, TransferState.DONE), "transfer_ended"),
    (events.TransferOverdue(TransferId(7), TransferKind.STORE, 1.5), "transfer_overdue"),
    (events.SpaceReset(3), "space_reset"),
    (events.ResetDrained(3), "reset_drained"),
    (events.LeaseExpired(LeaseId(5), "request"), "lease_expired"),
    (events.Draining(), "draining"),
    (events.Resync(12), "resync"),
]


@pytest.mark.parametrize(("happened", "kind"), EVENTS)
def test_every_event_has_its_message(happened: events.Event, kind: str) -> None:
    message = replies.event(9, happened)
    assert message.sequence == 9
    assert message.WhichOneof("kind") == kind


def test_no_kind_of_event_is_forgotten() -> None:
    assert {type(happened) for happened, _ in EVENTS} == set(get_args(events.Event))
    described = cache_pb2.Event.DESCRIPTOR.oneofs_by_name["kind"]
    assert {kind for _, kind in EVENTS} == {field.name for field in described.fields}


def test_events_carry_their_facts() -> None:
    overdue = events.TransferOverdue(TransferId(7), TransferKind.STORE, 1.5)
    assert replies.event(1, overdue) == cache_pb2.Event(
        sequence=1,
        transfer_overdue=cache_pb2.TransferOverdue(
            transfer_id=7, kind=transfer_pb2.TRANSFER_KIND_STORE, age_s=1.5
        ),
    )
    expired = events.LeaseExpired(LeaseId(5), "request")
    assert replies.event(2, expired) == cache_pb2.Event(
        sequence=2, lease_expired=cache_pb2.LeaseExpired(lease_id=5, request="request")
    )
    assert replies.event(3, events.SpaceReset(4)).space_reset.generation == 4
    assert replies.event(3, events.ResetDrained(4)).reset_drained.generation == 4
    assert replies.event(3, events.Resync(12)).resync.lost_count == 12


def test_failed_blocks_travel_as_arrays() -> None:
    failures = (
        BlockFailure(4, 1, "no"),
        BlockFailure(2, 1, "no"),
        BlockFailure(2, 0, "no"),
        BlockFailure(3, 1, "other"),
    )
    report = events.TransferEnded(
        TransferId(7), TransferKind.STORE, TransferState.FAILED, failures
    )
    ended = replies.event(1, report).transfer_ended
    assert ended.state == transfer_pb2.TRANSFER_STATE_FAILED
    assert [(found.rank, found.reason, list(found.positions)) for found in ended.failures] == [
        (0, "no", [2]),
        (1, "no", [2, 4]),
        (1, "other", [3]),
    ]


def test_states_and_kinds_are_all_known() -> None:
    assert set(replies.STATES) == set(TransferState)
    assert set(replies.KINDS) == set(TransferKind)
    for state, number in replies.STATES.items():
        assert transfer_pb2.TransferState.Name(number) == f"TRANSFER_STATE_{state.name}"
    for kind, direction in replies.KINDS.items():
        assert transfer_pb2.TransferKind.Name(direction) == f"TRANSFER_KIND_{kind.name}"


@pytest.mark.parametrize("state", ServerState)
def test_the_server_says_who_it_is(state: ServerState) -> None:
    limits = Limits(8192, 300.0, 3600.0, 4096, 1 << 26, 1 << 33)
    info = ServerInfo("1.2", "boot", state, limits, "arc", 12.5, "native")
    message = replies.server_info(info, 1.7e9, Role.READ_ONLY)
    assert cache_pb2.ServerState.Name(message.state) == f"SERVER_STATE_{state.name}"
    assert (message.version, message.boot_id, message.policy) == ("1.2", "boot", "arc")
    assert (message.uptime_s, message.copy_kernel) == (12.5, "native")
    assert (message.unix_time_s, message.role) == (1.7e9, cache_pb2.ROLE_READ_ONLY)
    assert message.limits == cache_pb2.Limits(
        max_keys_per_call=8192,
        max_lease_ttl_s=300.0,
        max_deadline_s=3600.0,
        max_transfers_per_session=4096,
        extent_bytes=1 << 26,
        pool_bytes=1 << 33,
    )


def test_a_session_is_told_its_bounds() -> None:
    opened = OpenedSession(SessionId(3), SpaceId(2), 5, 10.0, (1024, 64))
    assert replies.opened_session(opened, "boot") == cache_pb2.OpenSessionResponse(
        session_id=3, boot_id="boot", space_id=2, generation=5, grace_s=10.0, slot_bytes=[1024, 64]
    )


def test_a_lease_is_named_only_if_there_is_one() -> None:
    hits = (GroupHits(2, 1, "RRW"),)
    held = replies.lookup(LookupResult(4, hits, LeaseId(8), 99.0), 30.0)
    assert (held.generation, held.lease_id, held.lease_ttl_s) == (4, 8, 30.0)
    assert held.groups[0] == cache_pb2.GroupHits(hit_count=2, pending_count=1, states="RRW")
    asked = replies.lookup(LookupResult(4, hits, None, None), 30.0)
    assert (asked.lease_id, asked.lease_ttl_s) == (0, 0.0)


def test_a_store_is_told_how_much_was_accepted() -> None:
    plan = TransferPlan(SessionId(1), TransferId(2), TransferKind.STORE, (), "AASWAND")
    assert replies.store(plan) == cache_pb2.StoreResponse(statuses="AASWAND", accepted_count=3)


def test_a_reset_is_drained_only_if_nothing_is_left() -> None:
    running = replies.reset(ResetResult(5, 100, 1, 2, 3))
    assert running == reset_pb2.ResetResult(
        generation=5, dropped_count=100, ended_count=3, abandoned_stores=1, abandoned_loads=2
    )
    assert replies.reset(ResetResult(5, 0, 0, 0, 0)).drained
