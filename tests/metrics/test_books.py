"""What is said of all transfers, or of all sessions, is said of the right one among several."""

from kvstow.server.metrics.books import Books
from support.daemons import Rig, running_daemon
from support.engine import Engine, keys


def figure(rig: Rig, name: str) -> float:
    """The one sample of a family."""
    found = [metric for metric in Books(rig.daemon).collect() if metric.name == name]
    ((sample,),) = [metric.samples for metric in found]
    return float(sample.value)


def test_the_age_is_that_of_the_oldest_transfer() -> None:
    oldest = "kvstow_oldest_transfer_age_seconds"
    with running_daemon() as rig:
        first, second = Engine(rig.daemon, rig.place), Engine(rig.daemon, rig.place)
        assert figure(rig, oldest) == 0
        let_first_go = rig.hold(session=first.session)
        let_second_go = rig.hold(session=second.session)
        older = first.begin_store(keys(1), [0])
        rig.clock.advance(5)
        younger = second.begin_store(keys(2), [0])
        rig.clock.advance(2)
        assert figure(rig, oldest) == 7
        let_first_go()
        first.ended(older.transfer)
        assert figure(rig, oldest) == 2
        let_second_go()
        second.ended(younger.transfer)
        assert figure(rig, oldest) == 0


def test_the_lag_is_that_of_the_session_that_is_furthest_behind() -> None:
    with running_daemon() as rig:
        engines = [Engine(rig.daemon, rig.place) for _ in range(3)]
        for number, engine in enumerate(engines[:2], start=1):
            for block in range(number):
                engine.store(keys(10 * number + block), [block])
        assert figure(rig, "kvstow_stream_lag_events") == 2
        rig.daemon.acknowledge(engines[1].session, 2)
        assert figure(rig, "kvstow_stream_lag_events") == 1
