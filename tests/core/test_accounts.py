"""What spaces have counted is never lost, in bounded memory, and never comes to another account."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.engines import SLOT_BYTES, Engine, identity, make_ledger
from kvstow.server.core import spaces
from kvstow.server.core.books import Limits
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.spaces import ACCOUNT_LIMIT, OTHERS, Account, SpaceCounters
from kvstow.server.core.types import DropReason, SpaceId, TransferState

OWN = ("tenant", "m")
FEW = 3
"""Accounts, in place of ACCOUNT_LIMIT."""


def counted(ledger: Ledger) -> dict[Account, SpaceCounters]:
    """What was counted on each account, by spaces that live and by those that are gone."""
    snapshot = ledger.snapshot(now=0.0)
    accounts = snapshot.counters.accounts.copied()
    for space in snapshot.spaces:
        accounts.add(space.identity, space.counters)
    return accounts.sums


def look(ledger: Ledger, model: str = "m", weights: str = "1") -> SpaceId:
    """An engine looks a key up and is gone; returns its space."""
    engine = Engine(ledger, identity(model, weights=weights))
    engine.lookup([1])
    space = engine.space
    engine.end()
    return space


def test_everything_that_a_space_counted_outlives_it() -> None:
    ledger = make_ledger(4)
    engine, space = Engine(ledger), ledger.space_ids()[0]
    engine.store([1, 2])
    engine.lookup([1, 2, 3])
    engine.load([1])
    engine.finish(engine.begin_load([2]), 0)
    engine.finish(engine.begin_store([4]), 0)
    engine.begin_store([5])
    engine.lookup([5])
    engine.reset()
    engine.store([1, 2, 3, 4])
    engine.store([5])
    engine.end()
    before = counted(ledger)
    assert all(getattr(before[OWN], each.name) for each in fields(SpaceCounters))
    ledger.drop_space(space, now=9.0)
    (after,) = counted(ledger).values()
    drop = SpaceCounters(resets=1, dropped=Counter({DropReason.DROP_SPACE: 4}))
    assert after == before[OWN] + drop
    assert after.evicted_blocks == 1


def test_a_space_that_makes_room_for_another_leaves_its_counts() -> None:
    """Its evictions too, which its index has counted so far."""
    ledger = make_ledger(2, extent_bytes=2 * SLOT_BYTES, limits=Limits(max_spaces=2))
    engine = Engine(ledger)
    engine.store([1, 2])
    engine.end()
    other = Engine(ledger, identity("other model"))
    other.store([1, 2])
    Engine(ledger, identity("third"))
    assert len(ledger.space_ids()) == 2
    left = ledger.snapshot(now=0.0).counters.accounts.sums[OWN]
    assert (left.stored_blocks, left.evicted_blocks) == (2, 2)


def test_spaces_of_one_tenant_and_model_share_an_account() -> None:
    ledger = make_ledger(4)
    first, *_ = [look(ledger, weights=weights) for weights in "123"]
    ledger.drop_space(first, now=9.0)
    look(ledger, weights="1")
    assert {account: sums.lookups for account, sums in counted(ledger).items()} == {OWN: 4}


def test_a_copy_that_ends_after_its_space_changes_no_account() -> None:
    """Its blocks were counted when it was abandoned; that it has ended counts for the daemon."""
    ledger = make_ledger(4)
    engine, space = Engine(ledger), ledger.space_ids()[0]
    engine.store([1])
    store, load = engine.begin_store([2, 3]), engine.begin_load([1])
    for plan in (store, load):
        ledger.start(engine.session, plan.transfer)
    engine.end()
    ledger.drop_space(space, now=9.0)
    before = counted(ledger)
    assert before[OWN].unstored == {"ABANDONED": 2}
    for plan in (store, load):
        assert engine.finish(plan) is TransferState.ABANDONED
    assert counted(ledger) == before
    ended = ledger.snapshot(now=9.0).counters.transfers
    assert sum(n for (_, state), n in ended.items() if state is TransferState.ABANDONED) == 2


def test_however_many_models_come_and_go_there_are_few_accounts() -> None:
    ledger = make_ledger(4)
    for number in range(1000):
        ledger.drop_space(look(ledger, f"model {number}"), now=9.0)
    sums = ledger.snapshot(now=9.0).counters.accounts.sums
    assert len(sums) == ACCOUNT_LIMIT + 1
    assert sums[OTHERS].lookups == 1000 - ACCOUNT_LIMIT


models = st.integers(0, FEW + 2).map(lambda number: f"model {number}")


@example([(f"model {number}", "1", number == FEW) for number in range(FEW + 1)])
@given(st.lists(st.tuples(models, st.sampled_from("12"), st.booleans()), max_size=16))
def test_the_first_models_have_accounts_whatever_goes_and_comes_back(
    steps: Sequence[tuple[str, str, bool]],
) -> None:
    """Each step looks a key up in a space, which is dropped then or lives on."""
    came: list[str] = []
    expected = Counter[Account]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spaces, "ACCOUNT_LIMIT", FEW)
        ledger = make_ledger(4)
        for model, weights, drops in steps:
            space = look(ledger, model, weights)
            came += [model] if model not in came else []
            expected[("tenant", model) if model in came[:FEW] else OTHERS] += 1
            if drops:
                ledger.drop_space(space, now=9.0)
            found = counted(ledger)
            assert {account: sums.lookups for account, sums in found.items()} == expected


def test_a_snapshot_does_not_change_when_a_space_goes() -> None:
    ledger = make_ledger(4)
    space = look(ledger)
    before = ledger.snapshot(now=0.0).counters.accounts
    ledger.drop_space(space, now=0.0)
    assert before.sums[OWN].lookups == 0
    assert ledger.snapshot(now=0.0).counters.accounts.sums[OWN].lookups == 1


def test_a_block_that_two_loads_could_not_read_is_dropped_once() -> None:
    ledger = make_ledger(4)
    engine = Engine(ledger)
    engine.store([1])
    first, second = engine.begin_load([1]), engine.begin_load([1])
    engine.finish(first, 0)
    engine.finish(second, 0)
    assert counted(ledger)[OWN].dropped == {DropReason.FAILED_LOAD: 1}
