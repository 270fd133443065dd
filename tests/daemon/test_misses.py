"""What the daemon remembers of lookups that found less than they asked for."""

from kvstow.server.core.types import Fate, GroupHits, GroupKeys, LookupResult, SpaceId
from kvstow.server.daemon.misses import LIMIT, ExplainedMiss, Misses
from support.daemons import Rig
from support.engine import Engine, keys

FIRST, SECOND = SpaceId(1), SpaceId(2)


def misses(rig: Rig, engine: Engine) -> list[ExplainedMiss]:
    """Those of the engine's space; each is a key that was asked for."""
    return rig.daemon.misses(engine.space)


def test_the_first_key_that_is_not_there_is_remembered_with_what_it_was_among(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    engine.store(keys(1, 2), [0, 1])
    engine.lookup(keys(1, 2))
    assert misses(rig, engine) == []
    engine.lookup(keys(1, 2, 3, 4))
    rig.clock.advance(5.0)
    (found,) = misses(rig, engine)
    (missed,) = keys(3)
    assert (found.miss.key, found.miss.hit_count, found.miss.key_count) == (missed, 2, 4)
    assert (found.age_s, found.fate.fate) == (5.0, Fate.UNKNOWN)


def test_what_became_of_a_key_afterwards_does_not_matter(rig: Rig) -> None:
    """An engine computes what it misses, and stores it: a moment later it is there."""
    engine = Engine(rig.daemon, rig.place)
    engine.store(keys(*range(8)), list(range(8)))
    rig.clock.advance(1.0)
    engine.store(keys(8, 9), [0, 1])  # the pool has room for eight
    gone = [number for number in range(10) if engine.hits(keys(number)).hit_count == 0]
    assert len(gone) == 2
    rig.clock.advance(1.0)
    engine.lookup(keys(gone[0]))
    rig.clock.advance(1.0)
    engine.store(keys(gone[0]), [0])
    assert engine.hits(keys(gone[0])).hit_count == 1
    rig.clock.advance(1.0)
    newest, *_ = misses(rig, engine)
    assert [newest.miss.key] == keys(gone[0])
    assert (newest.fate.fate, newest.fate.age_s) == (Fate.EVICTED, 3.0)


def test_a_key_that_is_being_stored_is_said_to_be(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    release = rig.hold()
    plan = engine.begin_store(keys(1), [0])
    engine.lookup(keys(1))
    assert [found.fate.fate for found in misses(rig, engine)] == [Fate.WRITING]
    release()
    engine.ended(plan.transfer)


def test_what_a_key_was_is_of_the_generation_in_which_it_was_missed(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    release = rig.hold()
    plan = engine.begin_store(keys(1), [0])
    engine.lookup(keys(1))
    engine.lookup(keys(2))
    rig.daemon.reset(engine.session, 0)
    fates = [(found.fate.fate, found.fate.generation) for found in misses(rig, engine)]
    assert fates == [(Fate.UNKNOWN, engine.generation), (Fate.WRITING, engine.generation)]
    release()
    engine.ended(plan.transfer)


def test_a_space_that_is_gone_leaves_no_keys_behind() -> None:
    remembered = Misses()
    one, nothing = [GroupKeys(0, keys(1))], LookupResult(1, (GroupHits(0, 0),), None, None)
    remembered.note(FIRST, one, nothing, 0.0, lambda: [FIRST])
    remembered.note(SECOND, one, nothing, 0.0, lambda: [SECOND])
    assert remembered.latest(FIRST) == []
    assert len(remembered.latest(SECOND)) == 1


def test_only_so_many_are_remembered_and_a_key_counts_once() -> None:
    remembered = Misses()
    for number in range(LIMIT + 2):
        asked = [GroupKeys(0, keys(0)), GroupKeys(1, keys(number, 999))]
        hits = LookupResult(1, (GroupHits(1, 0), GroupHits(0, 1)), None, None)
        remembered.note(FIRST, asked, hits, float(number), lambda: [FIRST])
    remembered.note(FIRST, asked, hits, 1000.0, lambda: [FIRST])
    newest, *others = remembered.latest(FIRST)
    assert (newest.group, [newest.key], newest.at) == (1, keys(LIMIT + 1), 1000.0)
    assert (newest.lookup_count, newest.writing) == (2, True)
    assert [[found.key] for found in others] == [keys(number) for number in range(LIMIT, 1, -1)]
