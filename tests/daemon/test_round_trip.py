"""Bytes that were stored come back, to the block and the rank they belong to."""

import pytest

from kvstow.server.core.types import Group, Hold, Layout, TransferId, TransferState
from support.daemons import Rig, running_daemon
from support.engine import BLOCK_COUNT, Engine, identity, keys
from support.machines import Machine

TWO_RANKS = Layout("bfloat16", 16, 2, "LBHNC", (Group((512, 256, 512)), Group((1024,))))
REPLICATED = Layout("bfloat16", 16, 3, "", (Group((704,), replicated=True), Group((128, 128))))


def test_blocks_come_back_to_other_places_of_another_engine(rig: Rig) -> None:
    writer = Engine(rig.daemon, rig.place)
    reader = Engine(rig.daemon, rig.place)
    writer.store(keys(1, 2, 3, 4), [3, 9, 0, 15])
    assert reader.hits(keys(1, 2, 3, 4, 5)).hit_count == 4
    reader.load(keys(1, 2, 3, 4), [5, 4, 11, 2])


def test_what_is_held_is_loaded_although_another_engine_wants_its_room(machine: Machine) -> None:
    numbers = list(range(10))
    wanted, others = keys(*numbers), keys(*range(10, 20))
    with running_daemon(machine=machine, blocks=10) as rig:
        reader, writer = Engine(rig.daemon, rig.place), Engine(rig.daemon, rig.place)
        reader.store(wanted, numbers)
        lease = reader.lookup(wanted, hold=Hold.PREFIX).lease
        assert writer.begin_store(others, numbers).statuses == "N" * 10

        let_go = rig.hold(count=1)
        load = reader.begin_load(wanted, numbers[::-1], lease=lease)
        rig.wait_held(1)
        assert writer.begin_store(others, numbers).statuses == "N" * 10
        let_go()
        assert reader.ended(load.transfer).state is TransferState.DONE
        reader.verify(wanted, numbers[::-1])
        writer.store(others, numbers)
        assert reader.hits(wanted).hit_count == 0


@pytest.mark.parametrize("layout", [TWO_RANKS, REPLICATED], ids=["sharded", "replicated"])
def test_every_rank_and_group_gets_its_own_bytes(layout: Layout, machine: Machine) -> None:
    space = identity(layout)
    with running_daemon(
        machine=machine, blocks=24, layout=layout, extent_size=8192, pool_size=65536
    ) as rig:
        writer = Engine(rig.daemon, rig.place, space)
        reader = Engine(rig.daemon, rig.place, space)
        groups = {0: (keys(1, 2, 3), [7, 1, 4]), 1: (keys(1, 2), [2, 3])}
        for group, (block_keys, blocks) in groups.items():
            writer.fill(block_keys, blocks, group)
        plan = writer.begin_store_groups(groups)
        assert plan.statuses == "AAAAA"
        writer.ended(plan.transfer)
        reader.load(keys(1, 2, 3), [0, 14, 15], group=0)
        reader.load(keys(1, 2), [9, 8], group=1)


def test_a_replicated_block_is_read_from_rank_0_and_takes_the_room_of_one_rank(
    machine: Machine,
) -> None:
    space = identity(REPLICATED)
    with running_daemon(
        machine=machine, layout=REPLICATED, extent_size=8192, pool_size=65536
    ) as rig:
        writer = Engine(rig.daemon, rig.place, space)
        opened = rig.daemon.open_session(space, "another", None)
        assert opened.slot_bytes == (704, 768)
        writer.fill(keys(1), [0])
        for rank in writer.ranks[1:]:
            rank.write(0, 0, b"\x55" * 704)  # not what is stored
        plan = writer.begin_store_groups({0: (keys(1), [0])})
        writer.ended(plan.transfer)
        writer.load(keys(1), [1])


def test_all_blocks_of_an_engine_move_in_one_transfer(machine: Machine) -> None:
    with running_daemon(
        machine=machine, blocks=BLOCK_COUNT, pool_size=1 << 20, extent_size=1 << 16
    ) as rig:
        engine = Engine(rig.daemon, rig.place)
        numbers = list(range(BLOCK_COUNT))
        engine.store(keys(*numbers), numbers)
        engine.load(keys(*numbers), numbers[::-1])


def test_a_repeated_call_copies_nothing_and_is_answered_as_the_first_time(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    first = engine.begin_store(keys(1, 2), [0, 1])
    engine.ended(first.transfer)
    engine.last_transfer = TransferId(0)  # the next call repeats it
    again = engine.begin_store_groups({0: (keys(1, 2), [0, 1])})
    assert again.repeated
    assert again.statuses == first.statuses
    engine.ended(first.transfer)
    assert rig.daemon.snapshot().spaces[0].counters.stored_blocks == 2


def test_an_offer_of_nothing_new_begins_no_transfer(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    engine.store(keys(1, 2), [0, 1])
    plan = engine.begin_store(keys(1, 2), [2, 3])
    assert plan.statuses == "SS"
    assert not plan.copies
    assert not engine.reports(plan.transfer)
