"""Many threads on one session: each transfer ends once, and ids rise."""

from concurrent.futures import ThreadPoolExecutor

from kvstow.client import Client, TransferState
from support.client_engine import PATIENT, ClientEngine, keys
from support.kvstowd import Kvstowd
from support.waiting import DEADLINE_S


def test_threads_share_a_session(daemon: Kvstowd, engine: ClientEngine) -> None:
    session = engine.session

    def work(thread: int) -> set[TransferState]:
        states = set()
        for turn in range(20):
            numbers = [1000 * thread + turn]
            hits = session.lookup(f"request {thread}", keys(numbers), budget_s=DEADLINE_S)
            stored = session.store(keys(numbers), [thread], hits.generation, budget_s=DEADLINE_S)
            assert stored.wait(DEADLINE_S)
            states.add(stored.state)
            session.release(f"request {thread}")
        return states

    with ThreadPoolExecutor(8) as pool:
        assert set.union(*pool.map(work, range(8))) == {TransferState.DONE}
    counters = session.counters()
    assert (counters.stores, counters.unfinished, counters.failures) == (160, 0, {})
    assert counters.ended == {TransferState.DONE: 160}
    with Client(daemon.target, PATIENT) as client:
        client.administration.check_ledger()
