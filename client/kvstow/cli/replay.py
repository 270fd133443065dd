"""`kvstow replay`: what host pools of several sizes would have found of the prompts in a trace.

The one command that needs no daemon: it asks the daemon's own ledger, which comes with the package.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, TypeAlias

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import Progress
from rich.progress_bar import ProgressBar
from rich.table import Table

from kvstow.server.replay import (
    POLICY_NAMES,
    Engine,
    Outcome,
    Trace,
    TraceError,
    enough,
    ladder,
    read_trace,
)
from kvstow.server.sizes import Size

from .words import duration, ratio, size

BAD_TRACE = 4
"""Exit code."""

BYTES_PER_TOKEN = 128 << 10
"""Llama 3.1 8B in 16 bits: keys and values of 32 layers with 8 heads of 128 numbers of 2 bytes."""

_BAR_COLUMNS = 20
_PIPE_COLUMNS = 160
"""What a table may take up where there is no screen."""

_sizes: TypeAdapter[int] = TypeAdapter(Size)


def parsed_size(written: str | int) -> int:
    """Bytes, as the daemon's settings write them.

    Raises:
        typer.BadParameter: it is no size.
    """
    try:
        found = _sizes.validate_python(written)
    except ValidationError as error:
        what = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise typer.BadParameter(f"{what}, not {written!r}") from None
    if found < 1:
        raise typer.BadParameter("it is at least one byte")
    return found


def _policy(name: str) -> str:
    if name not in POLICY_NAMES:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(POLICY_NAMES)}")
    return name


TraceFile = Annotated[
    typer.FileBinaryRead,
    typer.Argument(
        metavar="TRACE", help="JSON lines as published with Mooncake, or CSV; - is standard input."
    ),
]
BlockTokens = Annotated[
    int, typer.Option(min=1, help="Tokens that each hash id of the trace stands for.")
]
BytesPerToken = Annotated[
    int | None,
    typer.Option(
        parser=parsed_size,
        metavar="SIZE",
        show_default="128KiB, as of Llama 3.1 8B",
        help="KV cache of one token: all layers, all ranks.",
    ),
]
BlockBytes = Annotated[
    int | None,
    typer.Option(parser=parsed_size, metavar="SIZE", help="Instead: KV cache of one block."),
]
PoolSizes = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE,...",
        show_default="up to 17, the largest of which evicts nothing",
        help="Sizes of the host pool to try.",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        parser=_policy,
        metavar="|".join(POLICY_NAMES),
        show_default="each",
        help="Eviction policy to try; may be repeated.",
    ),
]
Within = Annotated[
    float,
    typer.Option(min=0, max=100, help="How many percentage points below the ceiling is enough."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

Outcomes: TypeAlias = Mapping[str, Mapping[int, Outcome]]
"""By policy, and by pool size in bytes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked and what came out.

    Attributes:
        name: of the trace.
        within: percentage points below the ceiling that are enough.
    """

    name: str
    trace: Trace
    block_tokens: int
    block_bytes: int
    within: float
    outcomes: Outcomes

    def enough(self, policy: str) -> int | None:
        """The pool size in bytes that is enough, if one is."""
        hit_ratios = {pool: found.hit_ratio for pool, found in self.outcomes[policy].items()}
        return enough(hit_ratios, self.trace.ceiling, self.within / 100)


def replay(
    trace: TraceFile,
    block_tokens: BlockTokens = 512,
    bytes_per_token: BytesPerToken = None,
    block_bytes: BlockBytes = None,
    pool_sizes: PoolSizes = None,
    policy: Policies = None,
    within: Within = 1.0,
    as_json: AsJson = False,
) -> None:
    """Say what host pools of several sizes would have found of the prompts in a TRACE.

    Needs no daemon. A trace that cannot be used is exit code 4.
    """
    if bytes_per_token is not None and block_bytes is not None:
        raise typer.BadParameter("give --bytes-per-token or --block-bytes, not both")
    block = block_bytes or block_tokens * (bytes_per_token or BYTES_PER_TOKEN)
    wanted = None if pool_sizes is None else _pool_sizes(pool_sizes, block)
    try:
        read = read_trace(trace, trace.name, block_tokens)
    except TraceError as error:
        typer.echo(f"kvstow: {error}", err=True)
        raise typer.Exit(BAD_TRACE) from None
    pools = wanted or ladder(read.distinct_count * block, block)
    outcomes = _replay(read, block, pools, policy or POLICY_NAMES)
    answer = Answer(trace.name, read, block_tokens, block, within, outcomes)
    if as_json:
        typer.echo(json.dumps(_row(answer), indent=2))
    else:
        _print(answer)


def _pool_sizes(written: str, block_bytes: int) -> list[int]:
    try:
        pools = sorted({parsed_size(part) for part in written.split(",")})
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint="--pool-sizes") from None
    if pools[0] < block_bytes:
        raise typer.BadParameter(
            f"a pool of {size(pools[0])} holds no block, one takes {size(block_bytes)}",
            param_hint="--pool-sizes",
        )
    return pools


def _replay(
    trace: Trace, block_bytes: int, pools: Sequence[int], policies: Sequence[str]
) -> Outcomes:
    """Replay the trace for every policy and size, and show how far that is."""
    outcomes: dict[str, dict[int, Outcome]] = {policy: {} for policy in policies}
    runs = [(policy, pool) for pool in pools for policy in outcomes]
    console = Console(stderr=True, markup=False)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(runs) * len(trace.requests))
        for policy, pool in runs:
            progress.update(task, description=f"{policy}, {size(pool)}")
            engine = Engine(pool // block_bytes, policy, trace.longest)
            for request in trace.requests:
                engine.serve(request)
                progress.advance(task)
            outcomes[policy][pool] = engine.outcome()
    return outcomes


def _row(answer: Answer) -> dict[str, object]:
    """The answer as plain values; the names are part of what scripts rely on."""
    trace = answer.trace
    return {
        "trace": {
            "name": answer.name,
            "requests": len(trace.requests),
            "duration_s": trace.duration_s,
            "prompt_tokens": trace.prompt_tokens,
            "block_count": trace.block_count,
            "distinct_count": trace.distinct_count,
        },
        "block_tokens": answer.block_tokens,
        "block_bytes": answer.block_bytes,
        "footprint_bytes": trace.distinct_count * answer.block_bytes,
        "ceiling": trace.ceiling,
        "within": answer.within / 100,
        "enough_bytes": {policy: answer.enough(policy) for policy in answer.outcomes},
        "runs": [
            {"policy": policy, "pool_bytes": pool, "hit_ratio": outcome.hit_ratio}
            | asdict(outcome)
            for policy, outcomes in answer.outcomes.items()
            for pool, outcome in outcomes.items()
        ],
    }


def _print(answer: Answer) -> None:
    """File names are shown as they are: brackets in them are no markup."""
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    console = Console(width=width, markup=False, highlight=False)
    for part in (_facts(answer), _hits(answer), _advice(answer)):
        console.print(part)
        console.line()


def _facts(answer: Answer) -> Table:
    trace = answer.trace
    footprint = size(trace.distinct_count * answer.block_bytes)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (
        ("trace", answer.name),
        ("requests", f"{len(trace.requests)} in {duration(trace.duration_s)}"),
        ("prompts", f"{trace.prompt_tokens} tokens, {trace.block_count} full blocks"),
        ("block", f"{answer.block_tokens} tokens, {size(answer.block_bytes)}"),
        ("footprint", f"{trace.distinct_count} different blocks, {footprint}"),
        ("ceiling", f"{ratio(trace.known_count, trace.block_count)} hits, in an infinite pool"),
    ):
        table.add_row(name, value)
    return table


def _hits(answer: Answer) -> Table:
    """Hit ratios as numbers and as bars; a full bar is the ceiling."""
    table = Table(box=None, pad_edge=False)
    table.add_column("pool", justify="right")
    table.add_column("blocks", justify="right")
    for policy in answer.outcomes:
        table.add_column(policy, justify="right")
        table.add_column(width=_BAR_COLUMNS)
    for pool in next(iter(answer.outcomes.values())):
        cells: list[str | ProgressBar] = [size(pool), str(pool // answer.block_bytes)]
        for outcomes in answer.outcomes.values():
            found = outcomes[pool]
            cells += [
                ratio(found.hits, found.hits + found.misses),
                ProgressBar(answer.trace.known_count, found.hits),
            ]
        table.add_row(*cells)
    return table


def _advice(answer: Answer) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for policy in answer.outcomes:
        pool = answer.enough(policy)
        near = f"within {answer.within:g} percentage points of the ceiling"
        table.add_row(
            policy,
            f"none of these pools is {near}"
            if pool is None
            else f"{size(pool)} is enough: this pool and all larger ones are {near}",
        )
    return table
