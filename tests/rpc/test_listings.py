"""What an administrator is shown is what the books say, field by field, at one instant."""

from collections.abc import Iterator
from unittest import mock

import pytest

from kvstow.server.core.snapshot import Snapshot
from kvstow.v1 import admin_pb2, cache_pb2, debug_pb2, transfer_pb2
from rpc.rig import Engine, Served, served
from support.waiting import wait_for


@pytest.fixture
def daemon() -> Iterator[Served]:
    """A daemon with a lease of two blocks, and a store that a reset of its space has abandoned."""
    with served() as daemon:
        engine, other = Engine(daemon), Engine(daemon, "another")
        for each in (engine, other):
            each.watch()
            each.store(1, [1, 2])
        hold = {"hold": cache_pb2.HOLD_PREFIX, "request": "r"}
        daemon.cache.Lookup(other.lookup_request([1, 2, 3], **hold))
        fault = debug_pb2.Fault(session_id=engine.session_id, hold=debug_pb2.HoldCopy())
        number = daemon.debug.AddFault(debug_pb2.AddFaultRequest(fault=fault)).fault_id
        daemon.cache.Store(engine.store_request(2, [3, 4, 5]))
        wait_for(lambda: daemon.faults.held(), "the held copy")
        daemon.cache.Reset(cache_pb2.ResetRequest(session_id=engine.session_id))
        yield daemon
        daemon.debug.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))


@pytest.fixture
def books(daemon: Served) -> Iterator[Snapshot]:
    """The books at an instant that lasts for the whole test."""
    books = daemon.daemon.snapshot()
    with mock.patch.object(daemon.daemon, "snapshot", return_value=books):
        yield books


def test_spaces(daemon: Served, books: Snapshot) -> None:
    shown = daemon.admin.ListSpaces(admin_pb2.ListSpacesRequest()).spaces
    assert [
        (
            space.space_id,
            space.identity.model,
            space.generation,
            space.session_count,
            space.ready_count,
            space.writing_count,
            tuple(space.draining_generations),
        )
        for space in shown
    ] == [
        (
            space.id,
            space.identity.model,
            space.generation,
            space.sessions,
            space.ready_blocks,
            space.writing_blocks,
            space.draining,
        )
        for space in books.spaces
    ]
    assert [tuple(space.draining_generations) for space in shown] == [(2,), ()]


def test_sessions(daemon: Served, books: Snapshot) -> None:
    shown = daemon.admin.ListSessions(admin_pb2.ListSessionsRequest()).sessions
    assert [
        (
            session.session_id,
            session.name,
            session.space_id,
            session.age_s,
            session.streaming,
            tuple(session.attached_ranks),
            session.world_size,
            session.transfer_count,
            session.lease_count,
            session.held_count,
            session.unacknowledged_count,
        )
        for session in shown
    ] == [
        (
            session.id,
            "engine",
            session.space,
            session.age_s,
            True,
            (0,),
            1,
            session.transfers,
            session.leases,
            session.held_blocks,
            session.unacknowledged,
        )
        for session in books.sessions
    ]
    assert [(each.transfer_count, each.held_count) for each in shown] == [(1, 0), (0, 2)]
    assert all(session.age_s > 0 for session in shown)


def test_transfers(daemon: Served, books: Snapshot) -> None:
    (shown,) = daemon.admin.ListTransfers(admin_pb2.ListTransfersRequest()).transfers
    (transfer,) = books.transfers
    assert (shown.session_id, shown.transfer_id) == (transfer.session, transfer.id)
    assert (shown.space_id, shown.generation) == (transfer.space, transfer.generation)
    assert shown.age_s == transfer.age_s > 0
    assert (shown.kind, shown.state) == (
        transfer_pb2.TRANSFER_KIND_STORE,
        transfer_pb2.TRANSFER_STATE_RUNNING,
    )
    assert (shown.abandoned, shown.overdue, shown.block_count) == (True, False, 3)
    assert (shown.session_name, list(shown.unfinished_ranks)) == ("engine", [0])


def test_leases(daemon: Served, books: Snapshot) -> None:
    (shown,) = daemon.admin.ListLeases(admin_pb2.ListLeasesRequest()).leases
    (lease,) = books.leases
    assert (shown.lease_id, shown.session_id) == (lease.id, lease.session)
    assert (shown.request, shown.block_count) == ("r", 2)
    assert shown.remaining_s == lease.remaining_s > 0
