"""A lookup that begins after a reset has returned never sees what was stored before it.

Twenty engines store, look up and load the same few prefixes while their space is reset a hundred times. The keys are the
same in every generation, as they are for engines whose weights were updated; the bytes differ, so that whoever loads a
block of another generation has the proof in hand. No engine learns of a new generation before it was looked into, so
whatever is found in it then is older.
"""

import threading
from collections import Counter
from contextlib import suppress

from kvstow.server.core.errors import KeyNotReady, StaleGeneration
from kvstow.server.core.types import TransferState
from kvstow.server.device.base import Direction
from kvstow.server.device.faults import Delay, FaultRule, Hold
from support.daemons import Rig, running_daemon
from support.engine import Engine, keys
from support.machines import Machine
from support.waiting import wait_for

ENGINES = 20
RESETS = 100
PREFIXES = 3
SOURCE, TARGET = [0, 1], [8, 9]


def prefix(number: int) -> list[bytes]:
    """Keys of a prefix of two blocks, the same in every generation."""
    return keys(0, 1, salt=str(number % PREFIXES))


def names(generation: int, number: int) -> list[bytes]:
    """What the bytes of these blocks are made from in a generation."""
    return keys(0, 1, salt=f"{generation}/{number % PREFIXES}")


class World:
    """What all threads share.

    Attributes:
        generation: the newest that engines may know.
        over: the last reset is done.
        ended: transfers that ended, by kind and state.
        mistakes: what must not be.
    """

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.generation = 1
        self.over = threading.Event()
        self.ended: Counter[str] = Counter()
        self.mistakes: list[str] = []


class Worker(threading.Thread):
    """One engine, on a thread of its own."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__()
        self.world = world
        self.number = number
        self.engine = Engine(world.rig.daemon, world.rig.place)

    def run(self) -> None:
        while not self.world.over.is_set():
            self.engine.generation = self.world.generation
            self.number += 1
            with suppress(StaleGeneration):
                self.store()
                self.load()

    def store(self) -> None:
        """Compute the prefix with the weights of the generation and offer it."""
        self.engine.fill(names(self.engine.generation, self.number), SOURCE)
        plan = self.engine.begin_store_groups({0: (prefix(self.number), SOURCE)})
        if plan.copies:
            self.world.ended[f"store {self.engine.ended(plan.transfer).state.value}"] += 1

    def load(self) -> None:
        """What is found is of the generation, to the byte."""
        if self.engine.hits(prefix(self.number)).hit_count < 2:
            return
        with suppress(KeyNotReady):
            plan = self.engine.begin_load(prefix(self.number), TARGET)
            state = self.engine.ended(plan.transfer).state
            self.world.ended[f"load {state.value}"] += 1
            if state is TransferState.DONE:
                self.verify()

    def verify(self) -> None:
        try:
            self.engine.verify(names(self.engine.generation, self.number), TARGET)
        except AssertionError as error:
            self.world.mistakes.append(f"generation {self.engine.generation}: {error}")


def reset_and_look(world: World, probe: Engine) -> None:
    """Reset, and look into the new generation before any engine can have stored in it."""
    probe.generation = world.rig.daemon.reset(probe.session, 0).generation
    for number in range(PREFIXES):
        found = probe.hits(prefix(number))
        if found.hit_count or found.pending_count:
            world.mistakes.append(f"{found} at the beginning of generation {probe.generation}")
    world.generation = probe.generation


def test_twenty_engines_and_a_hundred_resets(machine: Machine) -> None:
    with running_daemon(machine=machine, blocks=16, checked=False) as rig:
        world = World(rig)
        probe = Engine(rig.daemon, rig.place)
        workers = [Worker(world, number) for number in range(ENGINES)]
        # The first store and the first load run when the first reset comes; of the others nobody knows.
        held = [rig.faults.add(FaultRule(Hold(), direction=each, count=1)) for each in Direction]
        for worker in workers[::3]:  # slow ones, whose copies outlive the resets
            rig.faults.add(FaultRule(Delay(0.01), session=worker.engine.session))
        for worker in workers:
            worker.start()
        wait_for(
            lambda: {each.rule for each in rig.faults.held()} >= set(held),
            "a store and a load that run",
        )
        reset_and_look(world, probe)
        for number in held:
            rig.faults.remove(number)
        for _ in range(RESETS - 1):
            before = world.ended.total()
            wait_for(lambda: world.ended.total() > before + 2, "work in this generation")  # noqa: B023
            reset_and_look(world, probe)
        done = ("store done", "load done")
        wait_for(
            lambda: all(world.ended[each] for each in done), "stores and loads that no reset ends"
        )
        world.over.set()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive()
        assert not world.mistakes
        assert {"store done", "store abandoned", "load done", "load abandoned"} <= set(world.ended)
        wait_for(lambda: not rig.daemon.snapshot().transfers, "the end of all transfers")
        assert rig.daemon.snapshot().spaces[0].draining == ()
