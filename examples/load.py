"""A scripted load: an engine without a model asks a daemon for documents, as `python -m examples.load`.

Each request is for a document; few of them are asked for often, as it is with prompts that share a beginning. What the
daemon has of it is loaded and compared byte by byte, the rest is made up and stored. Two of these with the same --model
share what they store. A daemon that is stopped or restarted meanwhile costs hits, nothing else.

Exit codes: 0, 1 if a block that was loaded has wrong bytes, 2 if the command line is wrong or no daemon serves it.
"""

import argparse
import hashlib
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from kvstow.client import (
    Budgets,
    Client,
    EngineMemory,
    Group,
    GroupMemory,
    Hits,
    Identity,
    KeyScheme,
    KvstowError,
    Layout,
    Refused,
    Segment,
    Session,
    TransferState,
    default_target,
)

BLOCK_BYTES = 64 << 10
DOCUMENT_BLOCKS = 32
"""An engine serves one request at a time here, so its memory holds one document."""

PATIENCE_S = 60.0
"""How long a session may take to be opened, and a copy to end, where the machine is busy."""


@dataclass
class Totals:
    """What happened until now; all but the requests in blocks."""

    requests: int = 0
    asked: int = 0
    loaded: int = 0
    stored: int = 0
    wrong: int = 0

    def __str__(self) -> str:
        found = self.loaded / self.asked if self.asked else 0.0
        return f"{self.requests} requests, {found:.0%} of the blocks loaded, {self.wrong} wrong"


class ScriptedEngine:
    """One rank that serves requests for documents.

    Args:
        session: with nothing attached yet.
        memory: of one document.
        model: its name; it is part of the keys and of the bytes.
    """

    def __init__(self, session: Session, memory: EngineMemory, model: str) -> None:
        segments = [Segment(stride_bytes=BLOCK_BYTES)]
        session.attach(
            0, [memory.region()], [GroupMemory(block_count=DOCUMENT_BLOCKS, segments=segments)]
        )
        self.totals = Totals()
        self._session = session
        self._memory = memory
        self._model = model

    def serve(self, document: int) -> None:
        """Answer one request: load what is stored, make up the rest and store it."""
        keys = [self._key(document, block) for block in range(DOCUMENT_BLOCKS)]
        request = f"{self._model}/{self.totals.requests}"
        hits = self._session.lookup(request, keys)
        loaded = self._load(keys, hits)
        self.totals.requests += 1
        self.totals.asked += len(keys)
        self.totals.loaded += loaded
        if keys[loaded:]:
            self._store(keys, loaded, hits)

    def _load(self, keys: Sequence[bytes], hits: Hits) -> int:
        """Returns how many leading blocks hold their bytes now."""
        if not hits.count:
            return 0
        try:
            transfer = self._session.load(keys[: hits.count], range(hits.count), hits)
        except Refused:  # evicted or reset since: computed instead
            return 0
        if not transfer.wait(PATIENCE_S):
            raise TimeoutError("a load has not ended; its blocks may not be used")
        if transfer.state is not TransferState.DONE:
            return 0
        for block in range(hits.count):
            self.totals.wrong += self._block(block) != _content(keys[block])
        return hits.count

    def _store(self, keys: Sequence[bytes], first: int, hits: Hits) -> None:
        for block in range(first, len(keys)):
            self._block(block)[:] = _content(keys[block])
        try:
            transfer = self._session.store(keys[first:], range(first, len(keys)), hits.generation)
        except Refused:  # a reset came between
            return
        if not transfer.wait(PATIENCE_S):
            raise TimeoutError("a store has not ended; its blocks may not be changed")
        self.totals.stored += transfer.accepted_count

    def _block(self, block: int) -> memoryview:
        return self._memory.buffer[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]

    def _key(self, document: int, block: int) -> bytes:
        return hashlib.sha256(f"{self._model}/{document}/{block}".encode()).digest()


def _content(key: bytes) -> bytes:
    """The bytes of the block with this key."""
    return key * (BLOCK_BYTES // len(key))


def _identity(model: str) -> Identity:
    layout = Layout(
        dtype="float32",
        block_tokens=16,
        world_size=1,
        groups=[Group(segment_bytes=[BLOCK_BYTES])],
    )
    return Identity(
        model=model, layout=layout, key_scheme=KeyScheme(hash_name="sha256", key_bytes=32)
    )


def _seconds(progress: Progress, duration_s: float, task: TaskID) -> Iterator[None]:
    """Comes again until the time is over."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < duration_s:
        progress.update(task, completed=passed)
        yield
    progress.update(task, completed=duration_s)


def _run(engine: ScriptedEngine, options: argparse.Namespace, console: Console) -> None:
    dice = random.Random(options.seed)
    columns = (
        TextColumn("{task.fields[totals]}"),
        BarColumn(bar_width=None),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=options.seconds, totals=engine.totals)
        for _ in _seconds(progress, options.seconds, task):
            engine.serve(min(int(dice.paretovariate(0.6)), options.documents))
            time.sleep(options.pause)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.load", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", default=default_target(), help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=120.0, help="default: %(default)g")
    parser.add_argument("--model", default="scripted", help="default: %(default)s")
    parser.add_argument(
        "--documents", type=int, default=64, help="of 2 MiB each; default: %(default)s"
    )
    parser.add_argument(
        "--pause", type=float, default=0.01, help="seconds between requests; default: %(default)g"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the requests; default: %(default)s"
    )
    return parser.parse_args()


def main() -> int:
    """Serve requests for as long as the command line says; return the exit code."""
    options, console = _parse_options(), Console(stderr=True)
    memory_bytes = BLOCK_BYTES * DOCUMENT_BLOCKS
    try:
        with (
            Client(options.target, Budgets(control_s=PATIENCE_S)) as client,
            EngineMemory(memory_bytes) as memory,
            client.open(_identity(options.model), "scripted load") as session,
        ):
            engine = ScriptedEngine(session, memory, options.model)
            try:
                _run(engine, options, console)
            except KeyboardInterrupt:
                console.print("interrupted")
    except Refused as error:
        refusal = f"the daemon at {options.target} says no: {error}. {error.next_step}"
        console.print(refusal, markup=False, soft_wrap=True)
        return 2
    except KvstowError as error:
        console.print(f"no daemon at {options.target}: {error}", markup=False, soft_wrap=True)
        return 2
    print(engine.totals)
    return 1 if engine.totals.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
