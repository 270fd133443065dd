"""A hundred thousand reports for a reader that only ever reads when the daemon refuses more."""

import threading

import pytest

from kvstow.server.core.errors import TooManyTransfers
from kvstow.server.core.events import TransferEnded
from kvstow.server.core.types import GroupBlocks, TransferId, TransferState
from support.daemons import Rig, running_daemon
from support.engine import Engine
from support.memory import key

REPORTS = 100_000
LIMIT = 4096
PATIENCE_S = 600.0
"""All of it takes minutes on a busy machine."""


class Storer:
    """Stores one block after the other on a thread of its own, and stops for as long as the daemon refuses.

    Attributes:
        accepted: ids of the transfers that began, in order.
        refused: set while the daemon refuses more.
        go_on: set by whoever has acknowledged reports.
    """

    def __init__(self, rig: Rig, engine: Engine) -> None:
        self.accepted: list[TransferId] = []
        self.refused = threading.Event()
        self.go_on = threading.Event()
        self._rig, self._engine = rig, engine
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while len(self.accepted) < REPORTS:
            number += 1
            self._store(TransferId(number))
        self.refused.set()

    def _store(self, number: TransferId) -> None:
        engine, block = self._engine, [GroupBlocks(0, [key(number)], [number % 2])]
        try:
            plan = self._rig.daemon.store(
                engine.session, engine.generation, number, block, deadline_s=600.0
            )
        except TooManyTransfers:
            self.go_on.clear()
            self.refused.set()
            assert self.go_on.wait(PATIENCE_S)
        else:
            if plan.copies:  # else every slot is being filled just now
                self.accepted.append(number)


@pytest.mark.timeout(3600)
def test_a_slow_reader_gets_each_of_many_reports_once_and_in_order() -> None:
    with running_daemon(blocks=64, max_transfers=LIMIT, checked=False) as rig:
        engine = Engine(rig.daemon, rig.place)
        storer = Storer(rig, engine)
        numbers, ended = [0], list[TransferId]()
        while len(ended) < REPORTS:
            assert storer.refused.wait(PATIENCE_S)
            storer.refused.clear()
            assert rig.daemon.snapshot().sessions[0].unacknowledged <= LIMIT
            while len(ended) < len(storer.accepted):
                batch = engine.stream.next(PATIENCE_S)
                assert batch
                numbers += [number for number, _ in batch]
                for _, event in batch:
                    assert isinstance(event, TransferEnded)
                    assert event.state is TransferState.DONE
                    ended.append(event.transfer)
            rig.daemon.acknowledge(engine.session, numbers[-1])
            storer.go_on.set()
        storer.join()
        assert numbers == list(range(REPORTS + 1))
        assert sorted(ended) == storer.accepted
        engine.close()
