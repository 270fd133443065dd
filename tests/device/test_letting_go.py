"""The end of a device while somebody lets a held copy go."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from device.rig import Rig
from device.test_faults import World
from kvstow.server.device.base import Copy
from kvstow.server.device.faults import FaultRule, Hold
from support.waiting import DEADLINE_S, wait_for

T = TypeVar("T")


class Watched(threading.Condition):
    """Says that somebody waits for a change."""

    is_waited_for = False

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        self.is_waited_for = True
        return super().wait_for(predicate, timeout)


def test_close_waits_for_a_copy_that_somebody_lets_go_just_now(
    host_rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to nobody at that moment: not to those that are held, and not to the inner device yet."""
    world, changed = World(host_rig), Watched()
    world.device._changed = changed
    rule = world.device.add(FaultRule(Hold()))
    owner = world.store()
    world.wait_held()
    begun, goes_on, submit = threading.Event(), threading.Event(), host_rig.device.submit

    def submit_slowly(copy: Copy) -> None:
        begun.set()
        assert goes_on.wait(DEADLINE_S)
        submit(copy)

    monkeypatch.setattr(host_rig.device, "submit", submit_slowly)
    threads = [
        threading.Thread(target=world.device.release, args=[rule]),
        threading.Thread(target=world.device.close),
    ]
    threads[0].start()
    assert begun.wait(DEADLINE_S)
    threads[1].start()
    try:
        wait_for(lambda: changed.is_waited_for or not threads[1].is_alive(), "the close to wait")
        assert threads[1].is_alive(), "closed while a copy had not ended"
        assert owner.ends == []
    finally:
        goes_on.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert owner.wait_end().failures == [(block, "the device was closed") for block in range(4)]
