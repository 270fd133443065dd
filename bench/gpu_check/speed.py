"""How fast it is, next to one large copy in the same run, and what it costs the engine."""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from kvstow.client import Client, KvstowError, Transfer

from .engine import WAIT_S, CheckEngine, CheckError, done, new_keys, scattered
from .gpu import Gpu
from .plan import KIB, Plan
from .report import MISSED, OK, SAID, Report

GOALS = {32 * KIB: 0.80}
GOAL_ABOVE, GOAL = 64 * KIB, 0.95
ROUNDS = 3

Batch = tuple[list[bytes], list[int]]


def measure_rates(client: Client, gpu: Gpu, plan: Plan, report: Report) -> None:
    """Store, load and both at once, for each size of a piece."""
    plain: dict[str, float] = {}

    def measure_plain() -> None:
        plain.update(gpu.plain_rates(min(plan.rate_bytes, 1 << 30)))
        for way, rate in plain.items():
            report.count(f"plain {way}", rate)
            report.add("rate", f"one large copy, {way}", f"{rate / 1e9:.1f} GB/s")

    report.run("rate of one large copy", measure_plain)
    for piece_bytes in plan.rate_pieces:
        part = partial(_measure_rate, client, gpu, plan, report, plain, piece_bytes)
        report.run(f"rate {piece_bytes >> 10} KiB", part)


def _measure_rate(
    client: Client,
    gpu: Gpu,
    plan: Plan,
    report: Report,
    plain: Mapping[str, float],
    piece_bytes: int,
) -> None:
    count = max(1, min(plan.rate_bytes // piece_bytes, 4 * plan.most_blocks))
    with CheckEngine(client, gpu, piece_bytes, 2 * count) as engine:
        rates = _rates(engine, plan, piece_bytes, count)
    rates["swap"] = gpu.swap_rate(piece_bytes, min(count, 2048))
    for way, rate in rates.items():
        ratio = rate / plain.get(way, plain["store"])
        verdict = _verdict(way, piece_bytes, ratio) if plan.judged else SAID
        _report_rate(report, way, piece_bytes, rate, f"{ratio:.2f}", verdict)


def _rates(engine: CheckEngine, plan: Plan, piece_bytes: int, count: int) -> dict[str, float]:
    """Bytes a second each way, the best of some rounds."""
    size_bytes = count * piece_bytes
    best = dict.fromkeys(("store", "load", "both"), 0.0)
    lower = scattered(count)
    for _ in range(ROUNDS):
        stored = list(_cut(new_keys(count), lower, plan.most_blocks))
        best["store"] = max(best["store"], size_bytes / _seconds(engine, stored, []))
        loaded = [(keys, [block + count for block in blocks]) for keys, blocks in stored]
        best["load"] = max(best["load"], size_bytes / _seconds(engine, [], loaded))
        more = list(_cut(new_keys(count), lower, plan.most_blocks))
        best["both"] = max(best["both"], 2 * size_bytes / _seconds(engine, more, loaded))
    return best


def _cut(keys: list[bytes], blocks: list[int], most: int) -> Iterator[Batch]:
    for start in range(0, len(keys), most):
        yield keys[start : start + most], blocks[start : start + most]


def _seconds(engine: CheckEngine, stores: Sequence[Batch], loads: Sequence[Batch]) -> float:
    """From the first call to the last report."""
    began = time.perf_counter()
    transfers: list[Transfer] = []
    for at in range(max(len(stores), len(loads))):
        transfers += [engine.store(*batch, fenced=False) for batch in stores[at : at + 1]]
        transfers += [engine.load(*batch, fenced=False) for batch in loads[at : at + 1]]
    done(*transfers)
    return time.perf_counter() - began


def _verdict(way: str, piece_bytes: int, ratio: float) -> str:
    """Whether a share of the rate of one large copy is as much as was promised."""
    goal = GOAL if piece_bytes >= GOAL_ABOVE else GOALS.get(piece_bytes)
    if goal is None or way not in ("store", "load"):
        return SAID
    return OK if ratio >= goal else MISSED


def _report_rate(
    report: Report, way: str, piece_bytes: int, rate: float, ratio: str, verdict: str
) -> None:
    what = "store, block by block by the engine" if way == "swap" else way
    report.count(f"{way} {piece_bytes >> 10} KiB", rate)
    report.add(
        "rate", f"{piece_bytes >> 10} KiB, {what}", f"{rate / 1e9:.1f} GB/s, {ratio}", verdict
    )


def measure_latency(client: Client, gpu: Gpu, plan: Plan, report: Report) -> None:
    """A store of one block, from the call to the report that the engine sees."""
    taken = []
    with CheckEngine(client, gpu, 64 * KIB, 2) as engine:
        for _ in range(plan.latency_rounds):
            keys = new_keys(1)
            began = time.perf_counter()
            done(engine.store(keys, [0]))
            taken.append(time.perf_counter() - began)
    taken.sort()
    middle, high = statistics.median(taken), taken[int(len(taken) * 0.99)]
    report.count("latency median", middle)
    report.count("latency 99th", high)
    result = f"median {middle * 1e6:.0f} us, 99th of a hundred {high * 1e6:.0f} us"
    report.add("latency", "a store of one block of 64 KiB, with a fence", result)


def measure_interference(client: Client, gpu: Gpu, plan: Plan, report: Report) -> None:
    """What copies cost matrix products of the engine, and the other way round."""
    count = max(1, min(plan.rate_bytes // (64 * KIB), plan.most_blocks))
    with CheckEngine(client, gpu, 64 * KIB, 2 * count) as engine:
        alone = gpu.multiply(plan.multiply_s)
        with _copying(engine, count) as quiet:
            time.sleep(plan.multiply_s)
        with _copying(engine, count) as busy:
            during = gpu.multiply(plan.multiply_s)
    report.count("product alone ms", alone)
    report.count("product under copies ms", during)
    report.count("copies alone", quiet.rate)
    report.count("copies under products", busy.rate)
    result = (
        f"{alone:.3f} ms alone, {during:.3f} ms under copies both ways: {during / alone:.3f} times"
    )
    report.add("interference", "a matrix product", result)
    result = f"{quiet.rate / 1e9:.1f} GB/s alone, {busy.rate / 1e9:.1f} GB/s under products"
    report.add("interference", "copies both ways, 64 KiB", result)


class _Copies:
    """Bytes a second of copies that went on for a while."""

    rate = 0.0
    trouble: Exception | None = None


@contextmanager
def _copying(engine: CheckEngine, count: int) -> Iterator[_Copies]:
    """Store and load without end while the block runs."""
    copies, stop = _Copies(), threading.Event()
    lower = scattered(count)
    upper = [block + count for block in lower]

    def copy() -> None:
        began, moved = time.perf_counter(), 0
        stored = new_keys(count)
        try:
            done(engine.store(stored, lower, fenced=False))
            while not stop.is_set():
                more = new_keys(count)
                pair = (
                    engine.store(more, lower, fenced=False),
                    engine.load(stored, upper, fenced=False),
                )
                done(*pair)
                stored, moved = more, moved + 2 * count * 64 * KIB
        except (CheckError, KvstowError) as error:
            copies.trouble = error
        copies.rate = moved / (time.perf_counter() - began)

    thread = threading.Thread(target=copy, name="copies")
    thread.start()
    try:
        yield copies
    finally:
        stop.set()
        thread.join(WAIT_S)
    if copies.trouble is not None:
        raise copies.trouble
