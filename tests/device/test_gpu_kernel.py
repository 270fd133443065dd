"""Copies by a kernel: only where they were asked for and can be made, whatever their sizes; and that its PTX is its source's."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from device.conftest import cuda_rig, stub_rig
from device.rig import SESSION, GpuMemory, Recorder, Rig, blocks_in_a_row, make_copy, random_bytes
from device.stub import compiled
from kvstow.server.command_line import ConfigError, load
from kvstow.server.core.spans import Segment, Spans, plan_spans
from kvstow.server.device.base import DeviceError, Direction, Region
from kvstow.server.device.cuda import methods
from kvstow.server.device.cuda.batches import HostChunks
from kvstow.server.device.cuda.driver import INVALID_PTX, NO_JIT_COMPILER, UNSUPPORTED_PTX
from kvstow.server.device.cuda.libcuda import KERNEL
from kvstow.server.device.cuda.methods import ORDER_BYTES, Method
from kvstow.server.device.pool import HostPool
from scripts import gpu_kernel

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".gpu-kernel"
BLOCK = 4096


def copy(rig: Rig, region: Region, direction: Direction, spans: Spans) -> list[tuple[int, str]]:
    owner = Recorder()
    rig.device.submit(make_copy(owner, direction, spans, [region]))
    return owner.wait_end().failures


def scattered(block_bytes: int, count: int) -> Spans:
    """Blocks with gaps between them, in slots the other way round."""
    segment = Segment(0, 0, block_bytes + 16, block_bytes)
    return plan_spans(
        [segment], range(count), range(count)[::-1], block_bytes, block_bytes * count, 0
    )


def round_trip(rig: Rig, spans: Spans, size_bytes: int) -> None:
    memory = rig.allocate(size_bytes)
    region = rig.device.open_region(memory.handle, SESSION)
    memory.write(content := random_bytes(size_bytes))
    assert copy(rig, region, Direction.STORE, spans) == []
    memory.write(blank := random_bytes(size_bytes, 1))
    assert copy(rig, region, Direction.LOAD, spans) == []
    expected = blank.copy()
    for start, length in zip(spans.region_offset, spans.length, strict=True):
        expected[start : start + length] = content[start : start + length]
    assert np.array_equal(memory.read(), expected)


@compiled
@pytest.mark.parametrize("block_bytes", [1, 15, 16, 4096, ORDER_BYTES, ORDER_BYTES + 48, 100_000])
def test_the_kernel_copies_pieces_of_every_size(pool: HostPool, block_bytes: int) -> None:
    count = 7
    with stub_rig(pool, "13", kernel=True, copies="kernel") as rig:
        round_trip(rig, scattered(block_bytes, count), (block_bytes + 16) * count)


def test_more_orders_than_fit_are_given_one_after_the_other(
    pool: HostPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "MOST_ORDERS", 2)
    with cuda_rig(pool, kernel=True) as rig:
        round_trip(rig, scattered(1000, 21), 21 * 1016)
        assert rig.driver.calls["run_kernel"] >= 11
        assert rig.driver.calls["copy_batch"] == rig.driver.calls["copy_rows"] == 0
        assert [health.copies for health in rig.device.health()] == ["kernel", ""]


@pytest.mark.parametrize("chunk_bytes", [256 << 20, 4096, 3 * 4096])
def test_a_large_piece_is_shared_by_many_blocks_of_threads(chunk_bytes: int) -> None:
    host = HostChunks(0, chunk_bytes)
    cut = Method.KERNEL.cut(host).chunk_bytes
    assert cut <= ORDER_BYTES
    assert chunk_bytes % cut == 0, "no order may lie in two pieces that were page-locked apart"
    assert Method.BATCHES.cut(host) is host


def test_a_kernel_is_refused_where_the_pool_is_not_page_locked() -> None:
    with pytest.raises(ConfigError, match="a kernel reaches page-locked memory only: set pin"):
        load(["--cuda-copies=kernel", "--no-pin"])
    assert load(["--cuda-copies=kernel"]).pin
    assert load([]).cuda_copies == "dma"


def test_a_gpu_that_does_not_reach_the_pool_is_refused(pool: HostPool) -> None:
    with cuda_rig(pool, kernel=True) as rig:
        rig.driver.reaches = False
        with pytest.raises(DeviceError, match="set cuda_copies to dma"):
            rig.device.open_region(GpuMemory(rig.engine, BLOCK).handle, SESSION)


@pytest.mark.parametrize("code", [INVALID_PTX, NO_JIT_COMPILER, UNSUPPORTED_PTX])
def test_a_driver_that_does_not_load_the_kernel_says_what_to_set(
    pool: HostPool, code: int
) -> None:
    with cuda_rig(pool, kernel=True) as rig:
        memory = GpuMemory(rig.engine, BLOCK)
        with (
            rig.driver.failing("load_kernel", code),
            pytest.raises(DeviceError, match=r"needs CUDA 11\.8 .* set cuda_copies to dma"),
        ):
            rig.device.open_region(memory.handle, SESSION)
        rig.device.open_region(memory.handle, SESSION)


@pytest.mark.parametrize("after", range(4))
def test_a_context_that_is_given_up_half_made_leaves_nothing(pool: HostPool, after: int) -> None:
    """What each thread is told in is page-locked first for attaching, then for the threads."""
    with cuda_rig(pool, kernel=True) as rig:
        memory = GpuMemory(rig.engine, BLOCK)
        with rig.driver.failing("lock_pages", 2, after=after):
            try:
                region = rig.device.open_region(memory.handle, SESSION)
            except DeviceError:
                assert after < 2
            else:
                failed = copy(rig, region, Direction.STORE, blocks_in_a_row(1, BLOCK))
                assert [block for block, _ in failed] == [0][: after < 3]
        rig.device.open_region(GpuMemory(rig.engine, BLOCK).handle, SESSION)


def test_the_ptx_was_made_of_the_source() -> None:
    assert KERNEL == ROOT / gpu_kernel.PTX
    source, ptx = (ROOT / gpu_kernel.SOURCE).read_text(), KERNEL.read_text()
    assert ptx.startswith(gpu_kernel.header(source))
    assert re.search(r"^\.target sm_75$", ptx, re.MULTILINE)
    assert "ld.v4" in ptx


@pytest.mark.skipif(not TOOLS.exists(), reason="make gpu-kernel was not run: no assembler")
def test_the_ptx_can_be_made_again_and_assembled() -> None:
    command = [sys.executable, "scripts/gpu_kernel.py", str(TOOLS), "--check"]
    subprocess.run(command, cwd=ROOT, check=True)
