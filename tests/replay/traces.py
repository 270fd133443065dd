"""Traces that tests make."""

import io
import json
from collections.abc import Iterable, Sequence

from kvstow.server.replay import Request, Trace, read_trace

BLOCK_TOKENS = 16


def line(
    ids: Sequence[int], *, timestamp: float = 0, input_length: int | None = None
) -> dict[str, object]:
    """A request as the published traces have it, whose prompt ends where its last block ends."""
    tokens = len(ids) * BLOCK_TOKENS if input_length is None else input_length
    return {
        "timestamp": timestamp,
        "input_length": tokens,
        "output_length": 1,
        "hash_ids": list(ids),
    }


def json_lines(lines: Iterable[object]) -> bytes:
    """The file that holds them."""
    return "".join(f"{json.dumps(one)}\n" for one in lines).encode()


def read(content: bytes, block_tokens: int = BLOCK_TOKENS) -> Trace:
    """Read a trace that is called `t`."""
    return read_trace(io.BytesIO(content), "t", block_tokens)


def trace_of(prompts: Iterable[Sequence[int]]) -> Trace:
    """The trace of these prompts, each given by the ids of its blocks."""
    return read(json_lines(line(ids) for ids in prompts))


def ids_of(request: Request) -> list[int]:
    """The ids that the keys of a request were made of."""
    return [int.from_bytes(key) for key in request.keys]
