"""ExplainKeys and ListMisses over a socket: what became of keys, and that asking changes nothing."""

from kvstow.server.core.types import Fate
from kvstow.server.rpc.replies import FATES
from kvstow.v1 import admin_pb2
from rpc.rig import Engine, config, key, served


def test_why_keys_are_missing() -> None:
    with served(config()) as daemon:
        engine = Engine(daemon)
        engine.watch()
        engine.store(1, [1, 2])
        daemon.admin.ResetSpace(admin_pb2.ResetSpaceRequest(space_id=engine.space_id))
        engine.generation = 2
        engine.store(2, [2, 3])
        before = daemon.books()
        asked = b"".join(map(key, (1, 2, 4)))
        request = admin_pb2.ExplainKeysRequest(space_id=engine.space_id, keys=asked)
        reply = daemon.admin.ExplainKeys(request)
        assert reply.generation == 2
        assert list(reply.fates) == [
            admin_pb2.KEY_FATE_RESET,
            admin_pb2.KEY_FATE_READY,
            admin_pb2.KEY_FATE_UNKNOWN,
        ]
        assert list(reply.generations) == [1, 2, 2]
        assert list(reply.ages_s)[1:] == [0.0, 0.0]
        assert reply.ages_s[0] > 0
        assert (reply.complete, reply.reaches_back_s) == (True, 0.0)
        assert daemon.books() == before


def test_where_lookups_ended() -> None:
    with served(config()) as daemon:
        engine = Engine(daemon)
        engine.watch()
        engine.store(1, [1, 2])
        other = Engine(daemon, "other")
        daemon.cache.Lookup(other.lookup_request([7]))
        for _ in range(2):
            daemon.cache.Lookup(engine.lookup_request([1, 2, 3, 4]))
        before = daemon.books()
        request = admin_pb2.ListMissesRequest(space_id=engine.space_id)
        (miss,) = daemon.admin.ListMisses(request).misses
        assert (miss.key, miss.group, miss.hit_count, miss.key_count) == (key(3), 0, 2, 4)
        assert (miss.lookup_count, miss.fate) == (2, admin_pb2.KEY_FATE_UNKNOWN)
        assert miss.age_s >= 0
        assert daemon.books() == before
        request = admin_pb2.ListMissesRequest(space_id=other.space_id)
        assert [found.key for found in daemon.admin.ListMisses(request).misses] == [key(7)]


def test_every_fate_of_an_answer_has_a_name() -> None:
    assert set(FATES) == set(Fate) - {Fate.STORED}
    assert set(FATES.values()) == set(admin_pb2.KeyFate.values()) - {0}
