"""What every device promises: the right bytes in the right places, one end per copy, no surprise afterwards."""

import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest

from device.rig import (
    SESSION,
    Bytes,
    EngineMemory,
    Recorder,
    Rig,
    blocks_in_a_row,
    make_copy,
    random_bytes,
)
from kvstow.server.core.spans import Segment, Spans, check_segments, join_spans, plan_spans
from kvstow.server.device.base import DeviceError, Direction, Region
from kvstow.server.device.faults import Delay, Fail, FaultRule, FaultyDevice, Hold
from support.waiting import DEADLINE_S

WORLD_SIZE = 2
BLOCK_COUNTS = [0, 1, 2, 63, 64, 65, 1023, 1024, 1025]


@dataclass(frozen=True)
class Share:
    """What a transfer copies of one group."""

    segments: tuple[Segment, ...]
    slot_bytes: int
    replicated: bool
    blocks: list[int]
    slots: list[int]

    @property
    def block_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def rank_offset(self, rank: int) -> int:
        return 0 if self.replicated else rank * self.block_bytes


class Transfer:
    """A transfer of two groups, one of them replicated, in randomly laid out memory of two regions per rank."""

    def __init__(self, block_count: int, pool_bytes: int) -> None:
        self._random = np.random.default_rng(block_count)
        self.pool_bytes = pool_bytes
        self.capacity = block_count + 7
        sizes = [int(size) for size in self._random.integers(1, 200, 3)]
        split = (
            Segment(0, 5, sizes[0] + sizes[1] + 3, sizes[0]),
            Segment(1, 0, sizes[2], sizes[2]),
            Segment(0, 5 + sizes[0] + 1, sizes[0] + sizes[1] + 3, sizes[1]),
        )
        dense = (Segment(1, self.capacity * sizes[2], 64, 64),)
        self.region_bytes = [
            5 + self.capacity * (sizes[0] + sizes[1] + 3),
            self.capacity * (sizes[2] + 64),
        ]
        self.extent_bytes = pool_bytes // 2
        split_slot = -(-sum(sizes) * WORLD_SIZE // 64) * 64
        self.shares = [
            self._share(split, split_slot, block_count, extent=0, replicated=False),
            self._share(dense, 64, block_count, extent=1, replicated=True),
        ]
        for share in self.shares:
            check_segments(share.segments, self.region_bytes, self.capacity)

    def _share(
        self,
        segments: tuple[Segment, ...],
        slot_bytes: int,
        block_count: int,
        *,
        extent: int,
        replicated: bool,
    ) -> Share:
        """Blocks at random, slots in one run, or the other way round."""
        per_extent = self.extent_bytes // slot_bytes
        run = list(range(3, 3 + block_count))
        scattered = self._random.permutation(self.capacity)[:block_count].tolist()
        slots = [extent * per_extent + slot for slot in run]
        blocks = scattered if extent == 0 else run
        return Share(segments, slot_bytes, replicated, blocks, slots)

    def elsewhere(self, block_count: int) -> None:
        """Choose other blocks for the same slots."""
        for share in self.shares:
            share.blocks[:] = self._random.permutation(self.capacity)[:block_count].tolist()

    def spans(self, rank: int, *, with_replicated: bool) -> Spans:
        return join_spans(
            [
                plan_spans(
                    share.segments,
                    share.blocks,
                    share.slots,
                    share.slot_bytes,
                    self.extent_bytes,
                    share.rank_offset(rank),
                )
                for share in self.shares
                if with_replicated or not share.replicated
            ]
        )

    def model(
        self, memory: list[Bytes], pool: Bytes, rank: int, direction: Direction, replicated: bool
    ) -> None:
        """Move what the rank's share of the transfer is, block by block and segment by segment."""
        for share in self.shares if replicated else self.shares[:1]:
            per_extent = self.extent_bytes // share.slot_bytes
            for block, slot in zip(share.blocks, share.slots, strict=True):
                at = slot // per_extent * self.extent_bytes + slot % per_extent * share.slot_bytes
                at += share.rank_offset(rank)
                for segment in share.segments:
                    start = segment.offset_bytes + block * segment.stride_bytes
                    engine = memory[segment.region][start : start + segment.size_bytes]
                    host = pool[at : at + segment.size_bytes]
                    if direction is Direction.STORE:
                        host[:] = engine
                    else:
                        engine[:] = host
                    at += segment.size_bytes


@dataclass(frozen=True)
class Rank:
    """One worker of the engine."""

    memory: list[EngineMemory]
    regions: list[Region]

    def content(self) -> list[Bytes]:
        return [memory.read() for memory in self.memory]


def attach(rig: Rig, transfer: Transfer) -> list[Rank]:
    ranks = []
    for _ in range(WORLD_SIZE):
        memory = [rig.allocate(size) for size in transfer.region_bytes]
        regions = [rig.device.open_region(part.handle, SESSION) for part in memory]
        ranks.append(Rank(memory, regions))
    return ranks


@pytest.mark.parametrize("block_count", BLOCK_COUNTS)
def test_all_ranks_store_and_load_exactly_their_bytes(rig: Rig, block_count: int) -> None:
    transfer = Transfer(block_count, rig.pool.size)
    ranks = attach(rig, transfer)
    rig.pool[:] = random_bytes(rig.pool.size, seed=1)
    pool = rig.pool.copy()
    for number, rank in enumerate(ranks):
        for part in rank.memory:
            part.write(random_bytes(part.handle.size_bytes, seed=number + 2))

    for number, rank in enumerate(ranks):  # a replicated group is stored by one rank
        first = number == 0
        owner, spans = Recorder(), transfer.spans(number, with_replicated=first)
        rig.device.submit(make_copy(owner, Direction.STORE, spans, rank.regions, rank=number))
        end = owner.wait_end()
        assert (end.rank, end.failures, end.copied_bytes) == (number, [], spans.size_bytes)
        transfer.model(rank.content(), pool, number, Direction.STORE, replicated=first)
    assert np.array_equal(rig.pool, pool)

    transfer.elsewhere(block_count)
    for number, rank in enumerate(ranks):  # and loaded to all
        expected = rank.content()
        transfer.model(expected, pool, number, Direction.LOAD, replicated=True)
        owner, spans = Recorder(), transfer.spans(number, with_replicated=True)
        rig.device.submit(make_copy(owner, Direction.LOAD, spans, rank.regions, rank=number))
        assert owner.wait_end().failures == []
        for found, wanted in zip(rank.content(), expected, strict=True):
            assert np.array_equal(found, wanted)
    assert np.array_equal(rig.pool, pool)


def test_a_copy_that_is_no_longerwanted_touches_nothing(rig: Rig) -> None:
    memory = rig.allocate(4096)
    memory.write(random_bytes(4096))
    regions = [rig.device.open_region(memory.handle, SESSION)]
    unwanted, wanted = Recorder(wanted=False), Recorder()
    rig.store(unwanted, blocks_in_a_row(32, 64), regions)
    rig.store(wanted, blocks_in_a_row(1, 64), regions)
    wanted.wait_end()
    rig.device.close(DEADLINE_S)

    assert unwanted.ends == []
    assert rig.pool[:64].any()
    assert not rig.pool[64:].any()


def test_an_abandoned_copy_still_ends(rig: Rig) -> None:
    memory = rig.allocate(1 << 20)
    owner = Recorder()
    owner.abandon()
    rig.store(owner, blocks_in_a_row(256, 4096), [rig.device.open_region(memory.handle, SESSION)])

    end = owner.wait_end()
    assert end.failures == [(block, "abandoned") for block in range(256)]
    assert end.copied_bytes == 0


def test_a_region_closes_once(rig: Rig) -> None:
    region = rig.device.open_region(rig.allocate(4096).handle, SESSION)
    rig.device.close_region(region)

    with pytest.raises(DeviceError, match="not open"):
        rig.device.close_region(region)


def test_a_copy_of_a_closed_region_fails_and_touches_nothing(rig: Rig) -> None:
    memory = rig.allocate(4096)
    memory.write(random_bytes(4096))
    region = rig.device.open_region(memory.handle, SESSION)
    rig.device.close_region(region)
    owner = Recorder()
    rig.store(owner, blocks_in_a_row(2, 64), [region])

    assert owner.wait_end().failed == [0, 1]
    assert not rig.pool.any()


def test_what_is_submitted_after_close_starts_and_ends_as_failed(rig: Rig) -> None:
    region = rig.device.open_region(rig.allocate(4096).handle, SESSION)
    rig.device.close(DEADLINE_S)
    owner = Recorder()
    rig.load(owner, blocks_in_a_row(2, 64), [region])

    assert owner.start_count == 1
    assert owner.wait_end().failures == [
        (0, "the device was closed"),
        (1, "the device was closed"),
    ]


FAULTS = [
    FaultRule(Hold(), direction=Direction.STORE, count=30),
    FaultRule(Fail("broken"), rank=1, count=20),
    FaultRule(Delay(0.001), session=2, count=20),
    FaultRule(Fail("broken in part", (0, 3)), direction=Direction.LOAD, count=40),
]


@pytest.mark.parametrize("seed", range(4))
def test_every_copy_ends_once_whatever_happens_to_it(rig: Rig, seed: int) -> None:
    device = FaultyDevice(rig.device)
    rules = [device.add(rule) for rule in FAULTS]
    region = device.open_region(rig.allocate(64 << 10).handle, SESSION)
    owners: list[Recorder] = []

    def order(session: int) -> None:
        random = np.random.default_rng([seed, session])
        for transfer in range(100):
            owner = Recorder(wanted=bool(random.random() < 0.9))
            owners.append(owner)
            spans = blocks_in_a_row(int(random.integers(0, 16)), 4096)
            direction = list(Direction)[random.integers(2)]
            copy = make_copy(owner, direction, spans, [region], session=session, transfer=transfer)
            device.submit(replace(copy, rank=int(random.integers(2))))
            if random.random() < 0.2:
                owner.abandon()

    threads = [threading.Thread(target=order, args=[session]) for session in range(4)]
    for thread in threads:
        thread.start()
    device.release(rules[0])
    if seed % 2:  # otherwise it closes in the midst of the orders
        for thread in threads:
            thread.join()
    device.close(DEADLINE_S)
    for thread in threads:
        thread.join()

    assert len(owners) == 400
    assert {owner.start_count for owner in owners} == {1}
    assert all(len(owner.ends) == owner.wanted for owner in owners)
    assert device.held() == ()
    assert [device.queue_depth(direction) for direction in Direction] == [0, 0]
