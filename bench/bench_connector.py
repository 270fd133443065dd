"""What the vLLM connector costs the scheduler, in a real vLLM with 64 running requests: `make bench-vllm`.

The model is a tiny one, so that the engine's own time does not hide the connector's; the connector's does not depend on
the model but on requests and blocks. Each call of vLLM's connector interface on the scheduler's side is timed, cold
(everything is stored) and warm (everything is loaded first). `build_connector_meta` counts while all requests run. It
makes the call to the daemon that offers what the last step computed; `get_num_new_matched_tokens` makes a lookup. Prompts
differ in length, so that in every step some requests fill a block: two, on average.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from vllm_engine.environment import prepare_environment

from .daemon import running_daemon
from .figures import spread
from .machine import machine

prepare_environment()

from vllm_engine.engine import OpenEngine, connector, prompt, running_engine
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

REQUESTS = 64
PROMPT_TOKENS = 500
GENERATED = 300
CALLS = (
    "get_num_new_matched_tokens",
    "update_state_after_alloc",
    "build_connector_meta",
    "update_connector_output",
    "request_finished_all_groups",
)
Times = dict[str, list[float]]


class Stopwatch:
    """Times the calls of an engine's connector.

    Attributes:
        times: Seconds of each call, by name.
    """

    def __init__(self, engine: OpenEngine) -> None:
        self.times: Times = defaultdict(list)
        self._scheduler = engine.scheduler
        self._replace(engine.llm, "step")
        for name in CALLS:
            self._replace(self._scheduler.connector, name)

    def _replace(self, owner: Any, name: str) -> None:
        setattr(owner, name, self._timed(name, getattr(owner, name)))

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                took = time.perf_counter() - begun
                if name not in ("step", "build_connector_meta") or self._is_full():
                    self.times[name].append(took)

        return timed

    def _is_full(self) -> bool:
        return len(self._scheduler.running) == REQUESTS


def measure(target: str) -> dict[str, Times]:
    """Run all requests twice; the second time the engine has forgotten them."""
    prompts = [prompt(seed, PROMPT_TOKENS + seed % BLOCK_TOKENS) for seed in range(REQUESTS)]
    found: dict[str, Times] = {}
    with running_engine(
        tiny_llama(),
        connector(target),
        max_num_seqs=REQUESTS,
        max_num_batched_tokens=4096,
        num_gpu_blocks_override=4096,
        max_model_len=2048,
    ) as engine:
        watch = Stopwatch(engine)
        for life in ("cold", "warm"):
            watch.times = defaultdict(list)
            engine.run(*prompts, generate=GENERATED)
            engine.forget()
            found[life] = watch.times
    return found


def main() -> None:
    """Measure, show, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_connector", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    before = machine()
    with running_daemon(pool_size="256MiB") as target:
        times = measure(target)
    figures = {
        life: {name: spread(each) for name, each in calls.items()} for life, calls in times.items()
    }
    table = Table("run", "call", "count", "p50 µs", "p99 µs", title=f"{REQUESTS} requests")
    table.caption = f"load average before: {before['load_average']:.1f}"
    for life, calls in figures.items():
        for name, each in calls.items():
            table.add_row(
                life, name, f"{each['count']}", f"{each['p50_us']:.0f}", f"{each['p99_us']:.0f}"
            )
    Console().print(table)
    if options.json is not None:
        written = {"machine": before, "figures": figures}
        options.json.write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
