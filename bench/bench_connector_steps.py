"""What a step costs the scheduler when very many blocks have to be offered at once, or again: `python -m bench.bench_connector_steps`.

Without an engine: the scheduler half of the connector with 64 long requests, and a daemon that has no room for any block, so
that all 32,000 come back again and again; then they end, all in the same step. It needs nothing but `.venv`.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kvstow.client import (
    Callbacks,
    Client,
    EngineMemory,
    Group,
    GroupMemory,
    Identity,
    KeyScheme,
    Layout,
    Segment,
    Session,
)
from kvstow.client.calls import Budgets
from kvstow.client.engines.offload.engine import Engine, Written
from kvstow.client.engines.offload.epochs import HeardResets
from kvstow.client.engines.offload.scheduler import SchedulerHalf
from kvstow.client.engines.offload.shape import GroupShape, Shape
from kvstow.client.engines.offload.steps import Report

from .daemon import running_daemon
from .figures import spread

REQUESTS = 64
BLOCKS = 500
BLOCK_TOKENS = 16
BLOCK_BYTES = 4096
SECONDS = 5.0
POOL_BLOCKS = 16
COUNT = REQUESTS * BLOCKS + 1
SHAPE = Shape((GroupShape(BLOCK_TOKENS),), BLOCK_TOKENS, COUNT)
IDENTITY = Identity(
    model="bench",
    layout=Layout(
        dtype="none",
        block_tokens=BLOCK_TOKENS,
        world_size=1,
        order="none",
        groups=[Group(segment_bytes=[BLOCK_BYTES])],
    ),
    key_scheme=KeyScheme(hash_name="sha256", key_bytes=32, fingerprint=bytes(32)),
)


@dataclass
class Request:
    """A request whose prompt is computed."""

    request_id: str
    block_hashes: list[bytes]
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    num_tokens: int = BLOCKS * BLOCK_TOKENS + 1
    num_prompt_tokens: int = BLOCKS * BLOCK_TOKENS + 1
    skip_reading_prefix_cache: bool = True


class Steps:
    """The steps of an engine that computes nothing.

    Attributes:
        times: Seconds of processor time that each step took the scheduler half.
    """

    def __init__(self, session: Session, heard: HeardResets) -> None:
        self._session = session
        self._requests = [
            Request(
                str(number),
                [hashlib.sha256(b"%d %d" % (number, at)).digest() for at in range(BLOCKS)],
            )
            for number in range(REQUESTS)
        ]
        engine = Engine(SHAPE, 1, self._table)
        self._half = SchedulerHalf(session, heard, engine, time.monotonic)
        self.times: list[float] = []

    def begin(self) -> None:
        """All requests get their blocks, and are computed one after the other."""
        for request in self._requests:
            self._half.add(request)
            self._half.admit(request, [self._blocks(request)], 0)
        self._step(Written(handed_out=list(range(1, COUNT))))
        for request in self._requests:
            request.num_computed_tokens = BLOCKS * BLOCK_TOKENS
            self._step(Written())

    def run(self, goes_on: Callable[[], bool]) -> None:
        """Steps that compute nothing."""
        while goes_on():
            self._step(Written())
            time.sleep(0.001)

    def end(self) -> None:
        """All requests end in one step; then it goes on until nothing is left to do."""
        begun = time.thread_time()
        for request in self._requests:
            self._half.finish(request, [self._blocks(request)])
        self.times.append(time.thread_time() - begun)
        self.run(self._half.is_busy)

    def close(self) -> None:
        """End the session."""
        self._half.close(1)

    def _step(self, written: Written) -> None:
        ticket = self._session.ticket
        begun = time.thread_time()
        step = self._half.step(written)
        self._half.hear(Report(step.number, {0: ticket} if ticket is not None else {}))
        self.times.append(time.thread_time() - begun)

    def _blocks(self, request: Request) -> list[int]:
        first = 1 + int(request.request_id) * BLOCKS
        return list(range(first, first + BLOCKS))

    def _table(self, name: str, group: int, start: int, stop: int) -> list[int]:
        first = 1 + int(name) * BLOCKS
        return list(range(first + start, min(first + stop, first + BLOCKS)))


def fill(session: Session) -> None:
    """Store as much as fits, and hold it."""
    keys = [bytes([number] * 32) for number in range(POOL_BLOCKS)]
    session.store(keys, list(range(POOL_BLOCKS)), session.generation).wait()
    assert session.lookup("all", keys).count == POOL_BLOCKS


def stages(steps: Steps) -> Iterator[str]:
    """Go through it; the name of each part when it is over."""
    steps.begin()
    yield "they are computed"
    until = time.monotonic() + SECONDS
    steps.run(lambda: time.monotonic() < until)
    yield f"{REQUESTS} requests run, nothing is accepted"
    steps.end()
    yield "they end"


def measure(target: str) -> dict[str, list[float]]:
    """Seconds of each step, by part."""
    heard, times = HeardResets(), dict[str, list[float]]()
    budgets = Budgets(lookup_s=10, transfer_s=10)
    with (
        Client(target, budgets) as client,
        EngineMemory(COUNT * BLOCK_BYTES) as memory,
        client.open(IDENTITY, "bench", callbacks=Callbacks(heard.hear)) as session,
    ):
        segments = [Segment(stride_bytes=BLOCK_BYTES)]
        session.attach(0, [memory.region()], [GroupMemory(block_count=COUNT, segments=segments)])
        fill(session)
        steps = Steps(session, heard)
        for name in stages(steps):
            times[name], steps.times = steps.times, []
        steps.close()
    return times


def main() -> None:
    """Measure, show, write."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.bench_connector_steps", description=__doc__
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    with running_daemon(pool_size=POOL_BLOCKS * BLOCK_BYTES) as target:
        times = measure(target)
    figures = {name: {**spread(each), "max_us": max(each) * 1e6} for name, each in times.items()}
    table = Table("part", "steps", "p50 µs", "p99 µs", "max µs")
    for name, each in figures.items():
        cells = [f"{each[figure]:.0f}" for figure in ("count", "p50_us", "p99_us", "max_us")]
        table.add_row(name, *cells)
    Console().print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
