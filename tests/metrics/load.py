"""Engines that serve requests against a daemon; run as a program, an engine in a process of its own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from kvstow.client import (
    Client,
    EngineMemory,
    Group,
    GroupMemory,
    Hits,
    Identity,
    KeyScheme,
    Layout,
    Segment,
)
from metrics.prometheus import ROOT
from support.client_engine import PATIENT
from support.kvstowd import environment
from support.memory import KEY_BYTES, key

BLOCK_BYTES = 16 << 10
BLOCKS = 256
DOCUMENT_BLOCKS = 16
LONG_S = 60.0


class LoadEngine:
    """One rank that serves requests: looks up, loads what is there, stores the rest.

    Args:
        client: the connection.
        memory: of BLOCKS blocks.
        model: its model; those of one model share what they store.
        block_bytes: bytes of a block.
    """

    def __init__(self, client: Client, memory: EngineMemory, model: str, block_bytes: int) -> None:
        self.session = client.open(_identity(model, block_bytes), model)
        segments = [Segment(offset_bytes=0, stride_bytes=block_bytes)]
        self.session.attach(
            0, [memory.region()], [GroupMemory(block_count=BLOCKS, segments=segments)]
        )
        self._model = model
        self._requests = count()

    def keys(self, document: int) -> list[bytes]:
        """The block keys of a document."""
        return [key(position, f"{self._model}/{document}") for position in range(DOCUMENT_BLOCKS)]

    def look_up(self, document: int, ttl_s: float = 0.0) -> Hits:
        """Ask for a document, and hold what is found."""
        request = f"request-{next(self._requests)}"
        return self.session.lookup(request, self.keys(document), ttl_s=ttl_s, budget_s=LONG_S)

    def serve(self, document: int) -> None:
        """Answer one request for a document."""
        hits = self.look_up(document)
        keys, found = self.keys(document), hits.groups[0].hit_count
        if found:
            assert self.session.load(keys[:found], range(found), hits).wait(LONG_S)
        if keys[found:]:
            places = range(found, DOCUMENT_BLOCKS)
            assert self.session.store(keys[found:], places, hits.generation).wait(LONG_S)


def _identity(model: str, block_bytes: int) -> Identity:
    return Identity(
        model=model,
        layout=Layout(
            dtype="float32",
            block_tokens=16,
            world_size=1,
            groups=[Group(segment_bytes=[block_bytes])],
        ),
        key_scheme=KeyScheme(hash_name="sha256", key_bytes=KEY_BYTES),
    )


@contextmanager
def load_engine(
    target: str, model: str = "small", block_bytes: int = BLOCK_BYTES
) -> Iterator[LoadEngine]:
    """An engine that leaves afterwards."""
    with (
        Client(target, budgets=PATIENT) as client,
        EngineMemory(block_bytes * BLOCKS) as memory,
    ):
        engine = LoadEngine(client, memory, model, block_bytes)
        with engine.session:
            yield engine


@contextmanager
def engine_to_kill(target: str) -> Iterator[subprocess.Popen[str]]:
    """An engine in a process of its own that has stored a document."""
    process = subprocess.Popen(
        [sys.executable, "-m", "metrics.load", target],
        stdout=subprocess.PIPE,
        text=True,
        env={**environment(), "PYTHONPATH": f"{ROOT}/tests"},
    )
    assert process.stdout is not None
    with process.stdout as stream:
        try:
            assert stream.readline() == "stored\n"
            yield process
        finally:
            process.kill()
            process.wait()


def main() -> None:
    """Store a document, say so, and live until killed."""
    with load_engine(sys.argv[1], "small") as engine:
        engine.serve(2000)
        sys.stdout.write("stored\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
