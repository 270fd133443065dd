"""Which offered blocks are accepted, worked out from what engines know alone, against everything that makes the books
owe something: resets while copies run, leases that ended many times over, holds that are given back later, several
groups that share the slots, and admission.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from core.engines import SLOT_BYTES, Engine, identity, make_ledger, named_policy
from kvstow.server.core.books import Limits
from kvstow.server.core.policy import POLICY_NAMES
from kvstow.server.core.types import KeyState, LeaseId, StoreStatus, TransferPlan, TransferState

GROUPS = range(2)
KEYS = range(7)

Block = tuple[int, int]
"""Group and key."""

prefixes = st.lists(st.sampled_from(KEYS), max_size=6, unique=True)
offers = st.tuples(prefixes, prefixes).filter(any)


@dataclass
class Copy:
    """A transfer under way: the blocks whose slots it owns or reads, and whether a reset came since."""

    plan: TransferPlan
    blocks: frozenset[Block]
    is_load: bool
    outdated: bool = False


class GroupHistory(RuleBasedStateMachine):
    """One engine with two groups whose blocks are of one size."""

    @initialize(
        slot_count=st.integers(1, 4),
        policy=st.sampled_from(POLICY_NAMES),
        threshold=st.sampled_from([1, 1, 2]),
        max_tightened=st.sampled_from([0, 0, 3]),
    )
    def begin(self, slot_count: int, policy: str, threshold: int, max_tightened: int) -> None:
        self.slot_count, self.threshold = slot_count, threshold
        ledger = make_ledger(
            slot_count,
            policy=named_policy(policy),
            threshold=threshold,
            limits=Limits(max_tightened=max_tightened),
        )
        self.engine = Engine(ledger, identity(block_bytes=(SLOT_BYTES,) * len(GROUPS)))
        self.copies: list[Copy] = []
        self.leases: dict[LeaseId, set[Block]] = {}
        self.sights: Counter[tuple[int, Block]] = Counter()
        self.requests = count()

    def states(self) -> dict[Block, KeyState]:
        """Of every block of this generation."""
        found = self.engine.lookup(*(KEYS for _ in GROUPS)).groups
        return {
            (group, each): KeyState(letter)
            for group in GROUPS
            for each, letter in zip(KEYS, found[group].states, strict=True)
        }

    def held(self) -> set[Block]:
        """Of this generation, what a living lease or load reads."""
        reading = [copy.blocks for copy in self.copies if copy.is_load and not copy.outdated]
        return set().union(*reading, *self.leases.values())

    def room(self, states: dict[Block, KeyState]) -> int:
        """Slots that are free as soon as all that has ended is given back."""
        used = sum(state is not KeyState.ABSENT for state in states.values())
        return self.slot_count - used - len(self.outdated_slots())

    def outdated_slots(self) -> set[int]:
        """Slots of older generations under copies that still run."""
        return {
            slot
            for copy in self.copies
            if copy.outdated
            for part in copy.plan.copies
            for slot in part.slots
        }

    def expected(self, offer: tuple[list[int], list[int]]) -> str:
        """The letters of the answer."""
        states, held = self.states(), self.held()
        evictable = {
            block for block in states if states[block] is KeyState.READY and block not in held
        }
        free = self.room(states)
        letters = dict.fromkeys(blocks_of(offer), StoreStatus.NO_SPACE)
        wanted = []
        for group, keys in enumerate(offer):
            for block in [(group, each) for each in keys]:
                if states[block] is KeyState.ABSENT:
                    if not free + len(evictable):
                        break
                    wanted.append(block)
                    letters[block] = StoreStatus.ACCEPTED
                elif states[block] is KeyState.READY:
                    letters[block] = StoreStatus.ALREADY_STORED
                else:
                    letters[block] = StoreStatus.ALREADY_STORING
        admitted = [block for block in wanted if self.sight(block)]
        for block in set(wanted).difference(admitted):
            letters[block] = StoreStatus.NOT_ADMITTED
        kept = {block for block in letters if letters[block] is StoreStatus.ALREADY_STORED}
        for block in admitted[free + len(evictable - kept) :]:
            letters[block] = StoreStatus.NO_SPACE
        return "".join(letters[block].value for block in blocks_of(offer))

    def sight(self, block: Block) -> bool:
        """Count one sight of a block; whether it is admitted."""
        sighted = (self.engine.generation, block)
        self.sights[sighted] += 1
        return self.sights[sighted] >= self.threshold

    @rule(offer=offers)
    def begin_store(self, offer: tuple[list[int], list[int]]) -> None:
        expected, owned = self.expected(offer), self.outdated_slots()
        owned |= {slot for copy in self.copies for part in copy.plan.copies for slot in part.slots}
        plan = self.engine.begin_store(*offer)
        assert plan.statuses == expected
        taken = [slot for part in plan.copies for slot in part.slots]
        assert owned.isdisjoint(taken)
        assert len(set(taken)) == len(taken) == expected.count(StoreStatus.ACCEPTED.value)
        blocks = blocks_of(offer)
        accepted = [blocks[at] for part in plan.copies for at in part.positions]
        if accepted:
            self.copies.append(Copy(plan, frozenset(accepted), is_load=False))

    @rule(offer=offers)
    def begin_load(self, offer: tuple[list[int], list[int]]) -> None:
        states = self.states()
        ready = tuple(
            [each for each in keys if states[group, each] is KeyState.READY]
            for group, keys in enumerate(offer)
        )
        if any(ready):
            plan = self.engine.begin_load(*ready)
            self.engine.ledger.start(self.engine.session, plan.transfer)
            self.copies.append(Copy(plan, frozenset(blocks_of(ready)), is_load=True))

    @precondition(lambda self: self.copies)
    @rule(data=st.data(), broken=st.booleans())
    def finish(self, data: st.DataObject, broken: bool) -> None:
        copy = self.copies.pop(data.draw(st.integers(0, len(self.copies) - 1)))
        broken &= (
            not copy.is_load
        )  # a block that cannot be read leaves, but is held by others still
        failed = copy.plan.copies[0].positions[:1] if broken else ()
        state = self.engine.finish(copy.plan, *failed)
        good = TransferState.FAILED if broken else TransferState.DONE
        assert state is (TransferState.ABANDONED if copy.outdated else good)

    @rule(keys=prefixes.filter(bool), times=st.integers(1, 4))
    def hold(self, keys: list[int], times: int) -> None:
        for _ in range(times):
            found = self.engine.lookup(keys, keys, request=str(next(self.requests)))
            if found.lease is not None:
                hits = [keys[: found.groups[group].hit_count] for group in GROUPS]
                self.leases[found.lease] = set(blocks_of((hits[0], hits[1])))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        leases = data.draw(st.lists(st.sampled_from(sorted(self.leases)), unique=True, min_size=1))
        assert self.engine.release(*leases) == len(leases)
        for lease in leases:
            del self.leases[lease]

    @rule(running=st.booleans())
    def reset(self, running: bool) -> None:
        """With `running`, all copies have started and go on; otherwise stores that have not end now."""
        for copy in self.copies if running else []:
            self.engine.ledger.start(self.engine.session, copy.plan.transfer)
        self.engine.reset()
        wanted = {
            transfer
            for session, transfer in self.engine.ledger._books.transfers
            if session == self.engine.session
        }
        self.copies = [copy for copy in self.copies if copy.plan.transfer in wanted]
        for copy in self.copies:
            copy.outdated = True
        self.leases = {}

    @rule()
    def sweep(self) -> None:
        self.engine.ledger.sweep()
        self.engine.ledger.check()


def blocks_of(offer: tuple[list[int], ...]) -> list[Block]:
    """The blocks that a request names, in its order."""
    return [(group, each) for group, keys in enumerate(offer) for each in keys]


TestGroupHistory = GroupHistory.TestCase
TestGroupHistory.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


def test_accepted_blocks_with_gaps_keep_their_place_behind_those_of_other_groups() -> None:
    engine = Engine(make_ledger(9), identity(block_bytes=(SLOT_BYTES, SLOT_BYTES)))
    engine.store([], [2])
    plan = engine.begin_store([1, 2], [1, 2, 3])
    assert plan.statuses == "AAASA"
    assert [[*copies.positions] for copies in plan.copies] == [[0, 1], [2, 4]]
