"""The timer leaves the lock to others between its steps, however much has fallen due."""

from kvstow.server.core.expiry import EXPIRE_LIMIT
from kvstow.server.core.types import Hold
from kvstow.server.daemon.upkeep import STEP_PAUSE_S
from support.daemons import running_daemon
from support.engine import Engine, keys


def test_the_timer_pauses_while_much_falls_due() -> None:
    with running_daemon(checked=False) as rig:
        upkeep, timer = rig.daemon._parts.upkeep, rig.daemon._parts.timer
        engine = Engine(rig.daemon, rig.place)
        engine.store(keys(1), [0])
        for number in range(2 * EXPIRE_LIMIT + 1):
            engine.lookup(keys(1), hold=Hold.PREFIX, request=str(number))
        timer.stop()  # so that its work is done here, and nowhere else
        upkeep.work()  # nothing has fallen due; from now on it would sleep
        rig.clock.advance(100)
        timer._wake.clear()
        counts = []
        while count := len(rig.daemon.snapshot().leases):
            counts.append(count)
            assert upkeep.work() >= rig.clock() + STEP_PAUSE_S
            assert not timer._wake.is_set(), "nobody who leaves the lock wakes it before"
        assert counts == [2 * EXPIRE_LIMIT + 1, EXPIRE_LIMIT + 1, 1]
