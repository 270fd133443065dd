"""That it is right: bytes, fences, suspension, death."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from google import protobuf

from kvstow.client import Client, KvstowError
from kvstow.v1 import cache_pb2

from .engine import WAIT_S, CheckEngine, CheckError, done, new_keys, scattered
from .gpu import Gpu, Served
from .plan import Plan
from .report import FAILED, MISSED, OK, Report

VICTIM = 1 << 20
"""Bytes of a block of the engine that is killed."""

VICTIM_BLOCKS = 256
SLACK_BYTES = 64 << 20
"""The GPU's free memory is not counted to the byte: others allocate too."""

CONTRACT_S = 90.0
_POLL_S = 0.05


def check_protobuf(report: Report) -> None:
    """Which protobuf runs the generated code, and which it was generated for; that it takes it is seen by importing it."""
    source = Path(cache_pb2.__file__).read_text(encoding="utf-8")
    generated = re.search(r"Protobuf Python Version: (\S+)", source)
    if generated is None:
        raise CheckError("the generated code does not say which protobuf it is for")
    result = f"{protobuf.__version__} runs code generated for {generated[1]}"
    report.add("protobuf", "generated code", result, OK)


def check_bytes(client: Client, gpu: Gpu, plan: Plan, report: Report) -> None:
    """What was stored comes back, to other blocks, whatever the sizes."""
    for piece_bytes in plan.exact_pieces:
        part = partial(_check_bytes, client, gpu, plan, report, piece_bytes)
        report.run(f"bytes {piece_bytes >> 10} KiB", part)


def _check_bytes(client: Client, gpu: Gpu, plan: Plan, report: Report, piece_bytes: int) -> None:
    wrong, compared, room = 0, 0, 2 * max(plan.counts)
    with CheckEngine(client, gpu, piece_bytes, room) as engine:
        for seed, count in enumerate(plan.counts):
            source = scattered(count) if seed % 2 else list(range(count))
            target = list(range(room - 1, room - 1 - count, -1))
            keys = new_keys(count)
            engine.buffer.fill(source, seed * 10_000)
            done(engine.store(keys, source))
            engine.buffer.fill(target, -1)
            done(engine.load(keys, target))
            wrong += engine.buffer.wrong(target, seed * 10_000)
            compared += count
    result = f"{wrong} of {compared} blocks wrong"
    report.add("bytes", f"{piece_bytes >> 10} KiB", result, FAILED if wrong else OK)


def check_method(served: Served, wanted: str, report: Report) -> None:
    """Copies are made in the way that is wanted, and the driver has not refused it."""
    found = served.methods()
    result = ", ".join(found) or "none: no GPU is in use"
    report.add("copies", "are made by", result, OK if found == [wanted] else MISSED)


def check_fences(client: Client, gpu: Gpu, plan: Plan, report: Report) -> None:
    """Copies come after the kernels that were queued before their fence; without fences they may not."""
    for fenced, rounds in ((True, plan.fence_rounds), (False, max(plan.fence_rounds // 5, 10))):
        stale, late, seed = 0, 0, 0
        with CheckEngine(client, gpu, 1 << 16, 4) as engine:
            for seed in range(1, rounds + 1):
                if report.is_late:
                    raise CheckError(f"no time left for round {seed}; {stale + late} wrong so far")
                stale += not _store_after_kernel(engine, gpu, seed, fenced=fenced)
                late += not _load_after_kernel(engine, gpu, seed, fenced=fenced)
        what = "with fences" if fenced else "without, which shows that it matters"
        verdict = OK if (stale == late == 0) == fenced else FAILED
        result = f"{stale} stores and {late} loads of {seed} too early"
        report.add("fences", what, result, verdict)


def _store_after_kernel(engine: CheckEngine, gpu: Gpu, seed: int, *, fenced: bool) -> bool:
    """Store a block that a long kernel writes; whether that is what was stored."""
    keys = new_keys(1)
    engine.buffer.fill([0], -seed - 2)
    gpu.synchronize()
    gpu.sleep()
    engine.buffer.fill([0], seed)
    done(engine.store(keys, [0], fenced=fenced))
    gpu.synchronize()
    done(engine.load(keys, [1]))
    return engine.buffer.wrong([1], seed) == 0


def _load_after_kernel(engine: CheckEngine, gpu: Gpu, seed: int, *, fenced: bool) -> bool:
    """Load into a block that a long kernel still reads; whether it read what was there."""
    keys = new_keys(1)
    engine.buffer.fill([2], seed)
    engine.buffer.fill([3], -seed - 2)
    done(engine.store(keys, [2]))
    gpu.synchronize()
    gpu.sleep()
    read = engine.buffer.snapshot(3)
    done(engine.load(keys, [3], fenced=fenced))
    return read(-seed - 2) and engine.buffer.wrong([3], seed) == 0


def check_suspension(client: Client, gpu: Gpu, plan: Plan, report: Report) -> None:
    """A detached rank's memory can be freed, and others attached; what was stored is there still."""
    piece_bytes, count = max(plan.rate_pieces), min(plan.most_blocks, 64)
    blocks, keys = list(range(count)), new_keys(count)
    with CheckEngine(client, gpu, piece_bytes, count) as engine:
        engine.buffer.fill(blocks, 5)
        done(engine.store(keys, blocks))
        before = gpu.free_bytes()
        if not engine.session.detach(0, WAIT_S):
            raise CheckError("the memory was not given back")
        engine.buffer.free()
        freed = gpu.free_bytes() - before
        engine.buffer = gpu.buffer(piece_bytes, count)
        gpu.synchronize()
        engine.attach()
        done(engine.load(keys, blocks))
        wrong = engine.buffer.wrong(blocks, 5)
    free = freed >= piece_bytes * count
    verdict = OK if free and not wrong else FAILED
    result = f"{freed >> 20} MiB freed while detached, {wrong} of {count} blocks wrong afterwards"
    report.add("suspension", "detach, free, attach", result, verdict)


def check_death(client: Client, gpu: Gpu, plan: Plan, target: str, report: Report) -> None:
    """The memory of an engine that was killed in mid-copy is free within seconds, and the daemon serves others."""
    base = gpu.free_bytes()
    with gpu.victim(target) as victim:
        held = base - gpu.free_bytes()
        victim.kill()
        began = time.monotonic()
        while gpu.free_bytes() < base - SLACK_BYTES and time.monotonic() - began < WAIT_S:
            time.sleep(_POLL_S)
        seconds, left = time.monotonic() - began, base - gpu.free_bytes()
    verdict = OK if left <= SLACK_BYTES else FAILED
    result = f"{held >> 20} MiB held, {max(left, 0) >> 20} MiB left {seconds:.1f} s after the kill"
    report.add("death", "an engine killed in mid-copy", result, verdict)
    with CheckEngine(client, gpu, max(plan.exact_pieces), 4) as engine:
        keys = new_keys(2)
        engine.buffer.fill([0, 1], 7)
        done(engine.store(keys, [0, 1]))
        done(engine.load(keys, [2, 3]))
        wrong = engine.buffer.wrong([2, 3], 7)
    trouble = [gpu.trouble for gpu in client.server_info().gpus if gpu.trouble]
    verdict = FAILED if wrong or trouble else OK
    report.add("death", "its successor", f"{wrong} of 2 blocks wrong {' '.join(trouble)}", verdict)


def store_without_end(client: Client, gpu: Gpu, piece_bytes: int, say: Callable[[], None]) -> None:
    """What the engine does that is killed; says once that it is at it."""
    blocks = list(range(VICTIM_BLOCKS))
    engine = CheckEngine(client, gpu, piece_bytes, VICTIM_BLOCKS)
    engine.buffer.fill(blocks, 3)
    gpu.synchronize()
    done(engine.store(new_keys(VICTIM_BLOCKS), blocks))
    say()
    while True:
        try:
            engine.store(new_keys(VICTIM_BLOCKS), blocks).wait(WAIT_S)
        except KvstowError:
            return


def check_contract(report: Report) -> None:
    """The tests that every device has to pass, with an engine in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    # The settings of the project name plugins that a machine with a GPU need not have.
    plain = ["-o", "addopts=--import-mode=importlib", "-o", "filterwarnings="]
    done = subprocess.run(
        [*command, *plain, "tests/device/test_contract.py"],
        capture_output=True,
        check=False,
        text=True,
        timeout=CONTRACT_S,
    )
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
    passed = re.search(r"(\d+) passed", lines[-1])
    good = done.returncode == 0 and passed is not None and "skipped" not in lines[-1]
    report.add("contract", "tests/device/test_contract.py", lines[-1], OK if good else FAILED)
    if not good:
        print(done.stdout[-4000:])


def check_pinned(client: Client, report: Report) -> None:
    """The daemon says that it uses CUDA, sees the GPU, and has page-locked its pool."""
    info = client.server_info()
    seen = ", ".join(f"{gpu.name} {gpu.uuid}" for gpu in info.gpus)
    verdict = OK if info.pinned and info.gpus else MISSED
    report.add("daemon", "sees", seen or f"no GPU: {info.cuda_off}", verdict)
