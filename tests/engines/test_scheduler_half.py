"""The scheduler half under random interleavings of everything that can happen to it.

`engines.daemon`, `engines.memory` and `engines.engine` check what is promised at each step; here it is decided what
happens in which order, and what must hold in the end.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engines.engine import SimulatedEngine
from engines.request import Stage
from kvstow.client import TransferState
from kvstow.client.engines.offload.shape import GroupShape, Shape

PLAIN = Shape((GroupShape(2),), hash_tokens=2, block_count=14)
WINDOWED = Shape((GroupShape(2), GroupShape(2, 5)), hash_tokens=2, block_count=24)
UNEVEN = Shape((GroupShape(4), GroupShape(2, 5)), hash_tokens=2, block_count=24)
MOST_STEPS = 400


class Interleavings(RuleBasedStateMachine):
    """One engine, one daemon, and everything that can happen."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = SimulatedEngine(PLAIN)

    @initialize(
        shape=st.sampled_from([PLAIN, WINDOWED, UNEVEN]),
        lazy=st.booleans(),
        urgent_first=st.booleans(),
        ahead=st.booleans(),
        defers=st.booleans(),
        drafts=st.sampled_from([0, 0, 2]),
        max_keys=st.sampled_from([2, 3, 6, 100]),
    )
    def begin(
        self,
        shape: Shape,
        lazy: bool,
        urgent_first: bool,
        ahead: bool,
        defers: bool,
        drafts: int,
        max_keys: int,
    ) -> None:
        self.engine.half.close(0)
        self.engine = SimulatedEngine(shape, lazy, urgent_first, ahead, defers, drafts)
        self.engine.session.faults.max_keys = max_keys

    @rule(
        family=st.integers(0, 1),
        length=st.integers(1, 12),
        generate=st.integers(0, 6),
        skip=st.sampled_from([False, False, False, True]),
        urgency=st.integers(0, 2),
    )
    def add(self, family: int, length: int, generate: int, skip: bool, urgency: int) -> None:
        if len(self.engine.waiting) < 6:
            tokens = bytes(range(family, family + length))
            self.engine.add(tokens, generate, skip, urgency)

    @rule(count=st.integers(1, 4))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.engine.step()

    @precondition(lambda self: self.engine.session.copies)
    @rule(data=st.data())
    def end_copy(self, data: st.DataObject) -> None:
        copy = data.draw(st.sampled_from(self.engine.session.copies))
        self.engine.session.end(copy, TransferState.DONE)

    @precondition(lambda self: any(copy.accepted for copy in self.engine.session.copies))
    @rule(data=st.data())
    def fail_copy(self, data: st.DataObject) -> None:
        copies = [copy for copy in self.engine.session.copies if copy.accepted]
        copy = data.draw(st.sampled_from(copies))
        failed = data.draw(st.lists(st.sampled_from(copy.accepted), unique=True, min_size=1))
        self.engine.session.end(copy, TransferState.FAILED, failed)

    @precondition(lambda self: self.engine.waiting or self.engine.running)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.engine.abort(data.draw(st.sampled_from(self.engine.waiting + self.engine.running)))

    @rule()
    def preempt(self) -> None:
        self.engine.preempt_all()

    @rule(running=st.booleans())
    def reset(self, running: bool) -> None:
        self.engine.reset(running)

    @rule()
    def reset_by_another(self) -> None:
        self.engine.session.reset_by_another()

    @precondition(lambda self: self.engine.session.stored)
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        self.engine.session.evict(data.draw(st.sampled_from(sorted(self.engine.session.stored))))

    @rule()
    def expire(self) -> None:
        """Leases end by time."""
        self.engine.session.leases.clear()

    @rule()
    def die(self) -> None:
        self.engine.session.die()

    @rule(unheard=st.booleans())
    def come_back(self, unheard: bool) -> None:
        self.engine.session.come_back(unheard=unheard)

    @rule()
    def come_back_to_another_space(self) -> None:
        self.engine.session.come_back_to_another_space()

    @rule(
        what=st.sampled_from(["silent", "full", "picky", "busy", "slow", "quick"]),
        value=st.booleans(),
    )
    def change(self, what: str, value: bool) -> None:
        setattr(self.engine.session.faults, what, value)

    @invariant()
    def only_those_who_wait_hold_anything(self) -> None:
        for name in self.engine.session.leases:
            request = self.engine.requests[name.split()[0]]  # a long one has several leases
            assert request.stage in (Stage.WAITING, Stage.LOADING)

    @invariant()
    def nothing_older_than_a_reset_can_be_found(self) -> None:
        session, version = self.engine.session, self.engine.memory.version
        if not session.faults.reset_owed:
            assert all(content.version == version for content in session.stored.values())

    def teardown(self) -> None:
        engine = self.engine
        engine.session.come_back()
        faults = engine.session.faults
        faults.silent = faults.full = faults.picky = faults.busy = False
        faults.slow = faults.quick = False
        engine.session.settle_reset()
        for _ in range(MOST_STEPS):
            if not engine.is_busy:
                break
            engine.step()
            engine.end_copies()
        assert not engine.waiting
        assert not engine.running
        assert not engine.half.is_busy()
        engine.end_copies()
        assert not engine.session.leases
        assert engine.pool.reset(), "blocks are in use"
        assert not engine.unreported
        engine.half.close(0)


TestInterleavings: Any = Interleavings.TestCase
TestInterleavings.settings = settings(
    max_examples=300,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
