"""Breaker: when the daemon is asked, and when it is asked again."""

import pytest

from kvstow.client.breaker import (
    FIRST_BACK_OFF_S,
    LONGEST_BACK_OFF_S,
    THRESHOLD,
    Breaker,
    BreakerState,
)


class Rig:
    """A breaker with a clock and probes that wait for their end."""

    def __init__(self) -> None:
        self.now = 0.0
        self.probes = 0
        self.breaker = Breaker(lambda: self.now)

    def admits(self) -> bool:
        return self.breaker.admits(self._probe)

    def fail(self, times: int) -> None:
        for _ in range(times):
            self.breaker.fail()

    def _probe(self) -> None:
        self.probes += 1


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_daemon_that_answers_is_asked(rig: Rig) -> None:
    assert rig.admits()
    rig.fail(THRESHOLD - 1)
    assert rig.admits()
    rig.breaker.succeed()
    rig.fail(THRESHOLD - 1)
    assert rig.admits()
    assert rig.probes == 0


def test_a_daemon_that_failed_in_a_row_is_asked_no_more(rig: Rig) -> None:
    rig.fail(THRESHOLD)
    assert rig.breaker.state is BreakerState.OPEN
    assert not rig.admits()
    assert rig.probes == 0


def test_after_the_back_off_one_request_begins_one_probe_and_is_not_sent(rig: Rig) -> None:
    rig.fail(THRESHOLD)
    rig.now += FIRST_BACK_OFF_S
    assert not rig.admits()
    assert not rig.admits()
    assert rig.probes == 1
    assert rig.breaker.state is BreakerState.PROBING


def test_an_answered_probe_closes_it(rig: Rig) -> None:
    rig.fail(THRESHOLD)
    rig.now += FIRST_BACK_OFF_S
    rig.admits()
    rig.breaker.succeed()
    assert rig.admits()
    rig.fail(THRESHOLD - 1)
    assert rig.admits()


def test_each_failed_probe_doubles_the_back_off_up_to_a_limit(rig: Rig) -> None:
    rig.fail(THRESHOLD)
    back_off_s = FIRST_BACK_OFF_S
    for probes in range(1, 10):
        rig.now += back_off_s * 0.99
        rig.admits()
        assert rig.probes == probes - 1
        rig.now += back_off_s * 0.02
        rig.admits()
        assert rig.probes == probes
        rig.breaker.fail()
        back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
    assert back_off_s == LONGEST_BACK_OFF_S


def test_a_late_failure_does_not_put_the_probe_off(rig: Rig) -> None:
    rig.fail(THRESHOLD)
    rig.now += FIRST_BACK_OFF_S
    rig.breaker.fail()
    rig.admits()
    assert rig.probes == 1
