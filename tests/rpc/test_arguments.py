"""What a call says reaches the daemon as it was said, and what the daemon counts reaches the caller."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from kvstow.server.core.types import GroupBlocks, GroupKeys, Hold
from kvstow.server.rpc.servicer import MAX_WAIT_S
from kvstow.v1 import admin_pb2, cache_pb2
from rpc.rig import Engine, Served, key, served


@contextmanager
def heard(daemon: Served, verb: str) -> Iterator[mock.Mock]:
    """What the daemon is asked for, which it does all the same."""
    done = getattr(daemon.daemon, verb)
    with mock.patch.object(daemon.daemon, verb, autospec=True, side_effect=done) as asked:
        yield asked


def test_a_lookup() -> None:
    with served() as daemon, heard(daemon, "lookup") as asked:
        engine = Engine(daemon)
        request = engine.lookup_request(
            [1, 2],
            request="r",
            hold=cache_pb2.HOLD_READY,
            lease_ttl_s=12.5,
            touch=True,
            want_states=True,
        )
        assert daemon.cache.Lookup(request).groups[0].states == ".."
        asked.assert_called_once_with(
            engine.session_id,
            engine.generation,
            [GroupKeys(0, [key(1), key(2)])],
            request="r",
            hold=Hold.READY,
            ttl_s=12.5,
            touch=True,
            want_states=True,
        )
        daemon.cache.Lookup(engine.lookup_request([1]))
        asked.assert_called_with(
            engine.session_id,
            engine.generation,
            [GroupKeys(0, [key(1)])],
            request="",
            hold=Hold.NONE,
            ttl_s=daemon.daemon.info().limits.max_lease_ttl_s,
            touch=False,
            want_states=False,
        )


def test_a_lease_lives_as_long_as_was_asked_for() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        engine.store(1, [1])
        request = engine.lookup_request(
            [1], request="r", hold=cache_pb2.HOLD_PREFIX, lease_ttl_s=12.5
        )
        assert daemon.cache.Lookup(request).lease_ttl_s == 12.5
        (lease,) = daemon.admin.ListLeases(admin_pb2.ListLeasesRequest()).leases
        assert 0 < lease.remaining_s <= 12.5


@pytest.mark.parametrize(("asked_s", "given_s"), [(7.5, 7.5), (0.0, None), (1e9, None)])
def test_a_transfer(asked_s: float, given_s: float | None) -> None:
    with (
        served() as daemon,
        heard(daemon, "store") as store,
        heard(daemon, "load") as load,
    ):
        given_s = given_s or daemon.daemon.info().limits.max_deadline_s
        engine = Engine(daemon)
        engine.watch()
        blocks = [GroupBlocks(0, [key(1), key(2)], [0, 1])]
        daemon.cache.Store(engine.store_request(1, [1, 2], deadline_s=asked_s))
        session, generation = engine.session_id, engine.generation
        store.assert_called_once_with(session, generation, 1, blocks, given_s, None)
        engine.report()
        daemon.cache.Load(engine.load_request(2, [1, 2], deadline_s=asked_s, lease_id=99))
        load.assert_called_once_with(session, generation, 2, blocks, 99, given_s, None)


def test_what_is_cancelled_and_released_is_counted() -> None:
    with served() as daemon:
        session = Engine(daemon).session_id
        with mock.patch.object(daemon.daemon, "cancel", return_value=(2, 5)) as cancel:
            reply = daemon.cache.Cancel(
                cache_pb2.CancelRequest(session_id=session, transfer_ids=[3, 1, 2])
            )
        cancel.assert_called_once_with(session, [3, 1, 2])
        assert (reply.ended_count, reply.abandoned_count) == (2, 5)
        with mock.patch.object(daemon.daemon, "release", return_value=2) as release:
            released = daemon.cache.Release(
                cache_pb2.ReleaseRequest(session_id=session, lease_ids=[7, 9, 8])
            )
        release.assert_called_once_with(session, [7, 9, 8])
        assert released.released_count == 2


WAITING: dict[str, Callable[[Served, Engine, float], object]] = {
    "reset": lambda daemon, engine, wait_s: daemon.cache.Reset(
        cache_pb2.ResetRequest(session_id=engine.session_id, wait_s=wait_s)
    ),
    "reset_space": lambda daemon, engine, wait_s: daemon.admin.ResetSpace(
        admin_pb2.ResetSpaceRequest(space_id=engine.space_id, wait_s=wait_s)
    ),
    "reset_all": lambda daemon, _, wait_s: daemon.admin.ResetAll(
        admin_pb2.ResetAllRequest(wait_s=wait_s)
    ),
    "detach": lambda daemon, engine, wait_s: daemon.cache.DetachMemory(
        cache_pb2.DetachMemoryRequest(session_id=engine.session_id, wait_s=wait_s)
    ),
}


@pytest.mark.parametrize("verb", WAITING)
def test_a_call_waits_as_long_as_it_says_and_no_longer_than_any_may(verb: str) -> None:
    with served() as daemon, heard(daemon, verb) as asked:
        engine = Engine(daemon)
        for wait_s in (0.0, 0.25, MAX_WAIT_S - 1, MAX_WAIT_S + 1, 1e9):
            WAITING[verb](daemon, engine, wait_s)
        waits = [call.args[-1] for call in asked.call_args_list]
        assert waits == [0.0, 0.25, MAX_WAIT_S - 1, MAX_WAIT_S, MAX_WAIT_S]
