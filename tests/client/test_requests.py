"""What a session sends for what an engine asks, and what it does not send at all."""

import pytest

from client.double import Double
from kvstow.client import GroupHits, Hits, Hold, Session, TransferState
from kvstow.v1 import cache_pb2
from support.waiting import wait_for

KEYS = [b"key1", b"key2"]


def test_one_group_needs_no_ceremony(double: Double, session: Session) -> None:
    double.answers.hit_count = 2
    hits = session.lookup("request", KEYS)
    assert (hits.count, hits.groups[0].hit_count) == (2, 2)
    sent = double.requests["Lookup"]
    assert sent.groups == [cache_pb2.GroupKeys(group=0, keys=b"key1key2")]
    assert sent.hold == cache_pb2.HOLD_PREFIX
    session.load(KEYS, [4, 5], hits)
    assert double.requests["Load"].groups == [
        cache_pb2.GroupBlocks(group=0, keys=b"key1key2", blocks=[4, 5])
    ]
    assert double.requests["Load"].lease_id == hits.lease_id


def test_what_an_engine_says_of_its_requests_is_sent(double: Double, session: Session) -> None:
    hits = session.lookup("request", KEYS, hold=Hold.NONE, ttl_s=12.5, touch=True)
    looked_up = double.requests["Lookup"]
    assert (looked_up.request, looked_up.lease_ttl_s, looked_up.touch) == ("request", 12.5, True)
    assert (looked_up.hold, looked_up.want_states) == (cache_pb2.HOLD_NONE, False)
    load = session.load(KEYS, [4, 5], hits, deadline_s=7.5)
    store = session.store(KEYS, [4, 5], hits.generation, deadline_s=2.5)
    for method, transfer, deadline_s in (("Load", load, 7.5), ("Store", store, 2.5)):
        sent = double.requests[method]
        assert (sent.session_id, sent.generation) == (double.session_id, double.generation)
        assert (sent.transfer_id, sent.deadline_s) == (transfer.id, deadline_s)
        assert not sent.HasField("fence")
    session.cancel(store, load)
    wait_for(lambda: double.calls["Cancel"], "the cancel")
    assert list(double.requests["Cancel"].transfer_ids) == [store.id, load.id]


def test_several_groups_travel_in_one_call(double: Double, session: Session) -> None:
    hits = session.lookup("request", {1: KEYS, 0: KEYS[:1]}, hold=Hold.READY, want_states=True)
    assert set(hits.groups) == {0, 1}
    sent = double.requests["Lookup"]
    assert [(group.group, group.keys) for group in sent.groups] == [(1, b"key1key2"), (0, b"key1")]
    assert (sent.hold, sent.want_states) == (cache_pb2.HOLD_READY, True)
    session.store({1: KEYS, 0: KEYS[:1]}, {0: [7], 1: [8, 9]}, hits.generation)
    assert double.requests["Store"].groups == [
        cache_pb2.GroupBlocks(group=1, keys=b"key1key2", blocks=[8, 9]),
        cache_pb2.GroupBlocks(group=0, keys=b"key1", blocks=[7]),
    ]


def test_a_group_without_keys_is_not_asked_for(double: Double, session: Session) -> None:
    hits = session.lookup("request", {0: KEYS, 1: []})
    assert (hits.count, set(hits.groups)) == (1, {0})
    session.store({0: KEYS, 1: []}, {0: [1, 2], 1: []}, hits.generation)
    assert [group.group for group in double.requests["Store"].groups] == [0]


def test_hits_of_several_groups_count_as_the_shortest(session: Session) -> None:
    groups = {0: GroupHits(5, 1), 1: GroupHits(3, 4)}
    hits = Hits("request", session.generation, groups)
    assert hits.count == 3
    assert hits.pending_count == 3


@pytest.mark.parametrize(
    ("keys", "blocks", "complaint"),
    [
        ([b"key1", b"key"], [0, 1], "keys of .* bytes, the identity says 4"),
        ([b"key1"], [0, 1], "one block for each key"),
        ({0: [b"key1"]}, {1: [0]}, "in the same groups"),
        ([b"key1"], [-1], "out of range"),
    ],
)
def test_what_does_not_match_is_an_error_and_is_not_sent(
    double: Double, session: Session, keys: list[bytes], blocks: list[int], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        session.store(keys, blocks, session.generation)
    assert double.calls["Store"] == 0


def test_nothing_to_copy_is_done_without_asking(double: Double, session: Session) -> None:
    assert session.store([], [], session.generation).state is TransferState.DONE
    hits = session.lookup("request", [])
    assert (hits.count, hits.groups) == (0, {})
    assert session.load([], [], hits).state is TransferState.DONE
    assert double.calls["Store"] == double.calls["Load"] == double.calls["Lookup"] == 0


def test_a_request_is_released_by_its_name(double: Double, session: Session) -> None:
    session.lookup("one", KEYS)
    session.lookup("two", KEYS)
    session.release("one", "two", "three")
    wait_for(lambda: not double.leases, "the release")
    assert double.calls["Release"] == 1
    session.release("one")
    session.lookup("four", [])
    assert double.calls["Release"] == 1


def test_a_load_uses_the_lease_up(double: Double, session: Session) -> None:
    session.load(KEYS, [0, 1], session.lookup("request", KEYS))
    session.release("request")
    session.lookup("another", KEYS)
    session.release("another")
    wait_for(lambda: double.calls["Release"] == 1, "the release")
    assert list(double.requests["Release"].lease_ids) == [2]


def test_a_request_that_must_not_read_the_cache(double: Double, session: Session) -> None:
    session.lookup("request", KEYS)
    before = session.counters()
    hits = session.lookup("request", KEYS, skip_reading=True)
    wait_for(lambda: not double.leases, "what the request held to be released")
    assert double.calls["Lookup"] == 1
    assert hits.count == hits.pending_count == hits.lease_id == 0
    assert session.counters() == before
    transfer = session.store(KEYS, [0, 1], hits.generation)
    assert double.calls["Store"] == 1
    session.load(KEYS[: hits.count], [], hits)
    assert double.calls["Load"] == 0
    double.end(transfer.id)
    assert transfer.wait(60.0)


def test_counters_add_up(double: Double, session: Session) -> None:
    session.lookup("request", KEYS)
    stored = session.store(KEYS, [0, 1], session.generation)
    double.end(stored.id)
    assert stored.wait(60.0)
    counters = session.counters()
    assert (counters.lookups, counters.hit_count, counters.missed_count) == (1, 1, 1)
    assert (counters.stores, counters.loads, counters.unfinished) == (1, 0, 0)
    assert counters.ended == {TransferState.DONE: 1}
    assert counters.failures == {}
