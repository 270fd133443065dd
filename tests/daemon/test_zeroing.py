"""What is left of a tenant's blocks in the host pool once their slots were freed."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from kvstow.server.core.types import Group, Layout, TransferState
from kvstow.server.device.base import Copy, Direction
from kvstow.server.device.faults import Fail, FaultRule
from support.daemons import Rig, running_daemon
from support.engine import Engine, identity, keys
from support.machines import Machine
from support.memory import content
from support.waiting import wait_for

TWO_RANKS = Layout("float32", 16, 2, "", (Group((512, 512)),))
"""One rank's copy may have ended well when the other's fails: then a slot is filled by half."""

SECRET, OPEN = (identity(TWO_RANKS, tenant=tenant) for tenant in ("secret", "open"))
KEYS, OTHERS = keys(1, 2, 3, 4), keys(5, 6, 7, 8)
BLOCKS = [0, 1, 2, 3]


def at_rest(rig: Rig) -> bool:
    """Everything that was dropped has been handed back, and nothing is being zeroed or waits for it."""
    with rig.daemon._guard as ledger:  # once: what is handed back in between would be seen nowhere
        tables = ledger.snapshot(now=0.0).tables
        backlog = any(table.backlog for table in ledger._books.pool.tables.values())
    busy = sum(table.held + table.writing + table.quarantined + table.zeroing for table in tables)
    return not busy and not backlog


def reset(rig: Rig, engine: Engine) -> None:
    engine.store(KEYS, BLOCKS)
    rig.daemon.reset(engine.session, 0)


def drop(rig: Rig, engine: Engine) -> None:
    engine.store(KEYS, BLOCKS)
    engine.close()
    rig.daemon.drop_space(engine.space)


def fail(rig: Rig, engine: Engine) -> None:
    rig.faults.add(FaultRule(Fail("worn out", None), rank=1, count=1))
    failed = engine.begin_store(KEYS, BLOCKS)
    assert engine.ended(failed.transfer).state is TransferState.FAILED


def abandon(rig: Rig, engine: Engine) -> None:
    """The engine dies when one of its ranks has been copied."""
    let_go = rig.hold(rank=1)
    held = engine.begin_store(KEYS, BLOCKS)
    rig.wait_held(1)
    name = (engine.session, held.transfer)
    wait_for(lambda: rig.daemon.unfinished_ranks([name]) == [[1]], "the copy of rank 0")
    engine.close()
    let_go()
    rig.landed(held.transfer)


def evict(rig: Rig, engine: Engine) -> None:
    """Another tenant's store evicts all, and fails before it has overwritten anything."""
    engine.store(KEYS, BLOCKS)
    other = Engine(rig.daemon, rig.place, OPEN)
    rig.faults.add(FaultRule(Fail("worn out", None), session=other.session))
    failed = other.begin_store(OTHERS, BLOCKS)
    assert other.ended(failed.transfer).state is TransferState.FAILED


Way = Callable[[Rig, Engine], None]
WAYS: dict[str, Way] = {way.__name__: way for way in (reset, drop, fail, abandon, evict)}


@pytest.mark.parametrize("zeroed", ["secret", "someone, secret", "*"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_nothing_is_left_of_a_tenant_whose_freed_slots_are_zeroed(
    machine: Machine, way: Way, zeroed: str
) -> None:
    with running_daemon(machine=machine, layout=TWO_RANKS, blocks=4, zero_freed=zeroed) as rig:
        way(rig, Engine(rig.daemon, rig.place, SECRET))
        wait_for(lambda: at_rest(rig), "the end of zeroing")
        assert not rig.pool.memory.view.any()


@pytest.mark.parametrize("zeroed", ["", "secretive"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_of_others_everything_is_left(way: Way, zeroed: str) -> None:
    with running_daemon(layout=TWO_RANKS, blocks=4, zero_freed=zeroed) as rig:
        way(rig, Engine(rig.daemon, rig.place, SECRET))
        wait_for(lambda: at_rest(rig), "the end of sweeping")
        assert rig.pool.memory.view.any()


def test_a_slot_is_zeroed_when_nothing_reads_it_any_more(machine: Machine) -> None:
    with running_daemon(machine=machine, blocks=4, zero_freed="*") as rig:
        engine = Engine(rig.daemon, rig.place)
        engine.store(KEYS, BLOCKS)
        let_go = rig.hold(direction=Direction.LOAD, count=1)
        held = engine.begin_load(KEYS[:1], [4])
        rig.wait_held(1)
        rig.daemon.reset(engine.session, 0)

        (slot,) = held.copies[0].slots
        pool = rig.pool.memory.view.reshape(4, -1)
        wait_for(lambda: pool.any(axis=1).sum() == 1, "zeroing of all but the slot that is read")
        assert pool[slot].tobytes() == content(KEYS[0], 0, 0, pool[slot].size)

        let_go()
        rig.landed(held.transfer)
        wait_for(lambda: not pool.any(), "zeroing of the last slot")


@dataclass
class Gate:
    """Zeroes when it is let; until then whoever asked it to waits."""

    opened: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    threads: list[str] = field(default_factory=list)
    rig: Rig | None = None

    def zero(self, pieces: Iterable[range]) -> None:
        self.threads.append(threading.current_thread().name)
        self.asked.set()
        assert self.opened.wait(60)
        assert self.rig is not None
        self.rig.pool.zero(pieces)


def zeroing_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "zeroing"]


def test_a_daemon_that_ends_waits_for_what_is_being_zeroed_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind it the pool is unmapped, which must not happen under anybody who writes there."""
    gate = Gate()
    join = threading.Thread.join

    def join_what_goes_on(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "zeroing":
            assert timeout is None
            gate.opened.set()
        join(thread, timeout)

    with running_daemon(blocks=8, zero_freed="*", zero=gate.zero) as rig:
        gate.rig = rig
        engine = Engine(rig.daemon, rig.place)
        engine.store(KEYS, BLOCKS)
        rig.daemon.reset(engine.session, 0)
        assert gate.asked.wait(60)
        assert zeroing_threads()
        monkeypatch.setattr(threading.Thread, "join", join_what_goes_on)
        rig.daemon.close()
        assert not zeroing_threads()
        assert len(gate.threads) == 1, "what waited is not zeroed any more"


@pytest.mark.parametrize("zeroed", ["secret", ""])
def test_a_smaller_block_leaves_nothing_of_a_larger_one_in_its_slot(zeroed: str) -> None:
    """Slots are aligned, so both are of one size; the slots are evicted, and not zeroed before they are overwritten."""
    large, small = (Layout("float32", 16, 1, "", (Group((size,)),)) for size in (1024, 1000))
    with running_daemon(layout=large, blocks=4, zero_freed=zeroed) as rig:
        Engine(rig.daemon, rig.place, identity(large, tenant="secret")).store(KEYS, BLOCKS)
        Engine(rig.daemon, rig.place, identity(small, tenant="open")).store(OTHERS, BLOCKS)
        slots = rig.pool.memory.view.reshape(4, 1024)
        assert {slot[:1000].tobytes() for slot in slots} == {
            content(block, 0, 0, 1000) for block in OTHERS
        }
        assert slots[:, 1000:].any() != bool(zeroed)


def test_a_store_whose_slots_cannot_be_zeroed_behind_its_blocks_fails(machine: Machine) -> None:
    """What is left there may be another tenant's. The threads that copy have others to serve."""
    works = threading.Event()

    def zero(_pieces: Iterable[range]) -> None:
        if threading.current_thread().name != "zeroing" and not works.is_set():
            raise MemoryError

    small = Layout("float32", 16, 2, "", (Group((500,)),))
    with running_daemon(machine=machine, layout=small, zero_freed="*", zero=zero, bugs=4) as rig:
        engine = Engine(rig.daemon, rig.place, identity(small))
        for _ in range(4):  # more than there are threads
            failed = engine.ended(engine.begin_store(KEYS, BLOCKS).transfer)
            assert failed.state is TransferState.FAILED
            assert {failure.reason for failure in failed.failures} == {
                "internal error: MemoryError"
            }
        works.set()
        engine.store(KEYS, BLOCKS)


def test_a_store_fails_whole_though_the_rank_that_begins_copies_only_some_of_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was zeroed behind the blocks that rank 0 alone copies either."""

    def zero(_pieces: Iterable[range]) -> None:
        if threading.current_thread().name != "zeroing":
            raise MemoryError

    mixed = Layout("float32", 16, 2, "", (Group((500,), replicated=True), Group((256,))))
    with running_daemon(machine=machine, layout=mixed, zero_freed="*", zero=zero, bugs=1) as rig:
        engine = Engine(rig.daemon, rig.place, identity(mixed))
        submit, later = rig.faults.submit, list[Copy]()
        monkeypatch.setattr(
            rig.faults, "submit", lambda copy: (submit if copy.rank else later.append)(copy)
        )
        store = engine.begin_store_groups({0: (KEYS[:2], [0, 1]), 1: (KEYS[:2], [0, 1])})
        name = (engine.session, store.transfer)
        wait_for(lambda: rig.daemon.unfinished_ranks([name]) == [[0]], "the failure of rank 1")
        submit(*later)
        failed = engine.ended(store.transfer)
        assert {failure.position for failure in failed.failures} == {0, 1, 2, 3}
        assert engine.hits(KEYS[:2]).hit_count == 0


@pytest.mark.parametrize("zeroed", ["secret", ""])
def test_nothing_is_left_in_an_extent_that_passes_to_larger_slots(zeroed: str) -> None:
    """Neither in slots that nobody has taken nor behind the last one."""
    first, second = (Layout("float32", 16, 1, "", (Group((size,)),)) for size in (512, 1536))
    with running_daemon(layout=first, pool_size=4096, extent_size=4096, zero_freed=zeroed) as rig:
        secret = Engine(rig.daemon, rig.place, identity(first, tenant="secret"))
        secret.store(keys(*range(8)), list(range(8)))
        Engine(rig.daemon, rig.place, identity(second, tenant="open")).store(OTHERS[:1], [0])
        wait_for(lambda: at_rest(rig), "the end of zeroing")
        assert rig.pool.memory.view[1536:].any() != bool(zeroed)


def test_work_goes_on_while_slots_are_zeroed() -> None:
    """Neither the lock nor a thread of a call has anything to do with it; only the slots themselves cannot be had."""
    gate = Gate()
    with running_daemon(blocks=8, zero_freed="*", zero=gate.zero) as rig:
        gate.rig = rig
        engine = Engine(rig.daemon, rig.place)
        engine.store(KEYS, BLOCKS)
        engine.generation = rig.daemon.reset(engine.session, 0).generation
        assert gate.asked.wait(60)

        wait_for(lambda: sum(t.zeroing for t in rig.daemon.snapshot().tables) == 4, "zeroing")
        plan = engine.begin_store(keys(*range(11, 19)), list(range(8)))
        assert (
            plan.statuses == "AAAAAAAN"
        )  # an extent has one slot here, and one is zeroed at a time
        assert engine.ended(plan.transfer).state is TransferState.DONE

        gate.opened.set()
        wait_for(lambda: at_rest(rig), "the end of zeroing")
        engine.load(keys(*range(11, 18)), list(range(7)))
        assert set(gate.threads) == {"zeroing"}


def test_a_zeroing_that_goes_wrong_is_reported_and_its_slots_stay_nobodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows what is left in them; everything else goes on."""

    def zero(_pieces: Iterable[range]) -> None:
        raise MemoryError

    with running_daemon(blocks=8, zero_freed="*", zero=zero, bugs=1) as rig:
        monkeypatch.setattr(threading, "excepthook", rig.daemon.health.report_dead_thread)
        engine = Engine(rig.daemon, rig.place)
        engine.store(KEYS, BLOCKS)
        engine.generation = rig.daemon.reset(engine.session, 0).generation
        wait_for(lambda: rig.daemon.health.bug_count == 1, "the report")

        wait_for(lambda: sum(t.zeroing for t in rig.daemon.snapshot().tables) == 4, "the sweep")
        plan = engine.begin_store(keys(*range(11, 19)), list(range(8)))
        assert plan.statuses == "AAAAAAAN"
        assert engine.ended(plan.transfer).state is TransferState.DONE
        assert [table.zeroing for table in rig.daemon.snapshot().tables] == [1]
