"""vLLM engines as the tests run them: in the test's own process, or in one that `serve` runs.

Decided here: how they are configured, how requests are put, and how a test sees inside one of its own process (blocks,
tokens per step). One at a time: vLLM keeps one per process.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from vllm import SamplingParams
from vllm.config import KVTransferConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.inputs import TokensPrompt
from vllm.lora.request import LoRARequest
from vllm.outputs import RequestOutput
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.engine.llm_engine import LLMEngine

from vllm_engine.tiny import BLOCK_TOKENS, VOCABULARY

DEADLINE_S = 500.0
"""Longer than anything here takes on a busy machine; reached only when something is broken."""

PATIENT = {"lookup_budget_ms": 60_000, "transfer_budget_ms": 60_000}
"""Options for tests in which a busy machine must not make a miss of a hit."""

_ARGUMENTS = {
    "skip_tokenizer_init": True,
    "dtype": "float32",
    "enforce_eager": True,
    "enable_prefix_caching": True,
    "block_size": BLOCK_TOKENS,
    "max_num_batched_tokens": 256,
    "max_num_seqs": 32,
    "max_model_len": 1024,
    "num_gpu_blocks_override": 128,
    "disable_log_stats": True,
}


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    Args:
        tokens: generated.
        cached_count: tokens of the prompt that were not computed.
        reason: why it ended.
    """

    tokens: tuple[int, ...]
    cached_count: int
    reason: str


def prompt(seed: int, token_count: int) -> list[int]:
    """Random tokens; those of a longer prompt begin with those of a shorter one."""
    draw = random.Random(seed)
    return [draw.randrange(VOCABULARY) for _ in range(token_count)]


def repeat_until(act: Callable[[], object], condition: Callable[[], object], what: str) -> None:
    """Do something again and again until a condition holds.

    Args:
        act: does it.
        condition: asked before each time.
        what: what is waited for, for the message of a failure.
    """
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until, f"in {DEADLINE_S} s it never came to this: {what}"
        act()


def connector(target: str, **options: object) -> KVTransferConfig:
    """What makes an engine use the daemon at `target`."""
    return KVTransferConfig(
        kv_connector="KvstowConnector",
        kv_connector_module_path="kvstow.client.engines.vllm",
        kv_role="kv_both",
        kv_load_failure_policy="recompute",
        kv_connector_extra_config={"target": target, **options},
    )


class Engine:
    """An engine that computes where VLLM_ENABLE_V1_MULTIPROCESSING says.

    Args:
        model: directory of the model.
        transfer: of its connector, if it has one.
        arguments: of vLLM, beside the usual ones.

    Attributes:
        answers: of the requests that have ended, by name.
    """

    def __init__(
        self, model: Path, transfer: KVTransferConfig | None = None, **arguments: object
    ) -> None:
        given = {**_ARGUMENTS, "model": str(model), "kv_transfer_config": transfer, **arguments}
        self.llm = LLMEngine.from_engine_args(EngineArgs(**given))
        self.answers: dict[str, Answer] = {}
        self._added_count = 0

    def add(
        self,
        tokens: Sequence[int],
        generate: int = 8,
        *,
        salt: str = "",
        adapter: LoRARequest | None = None,
        priority: int = 0,
        **sampling: object,
    ) -> str:
        """Hand over a request; returns its name."""
        self._added_count += 1
        name = f"request-{self._added_count}"
        params = SamplingParams(
            temperature=0.0, max_tokens=generate, ignore_eos=True, detokenize=False, **sampling
        )
        given = TokensPrompt(prompt_token_ids=list(tokens))
        if salt:
            given["cache_salt"] = salt
        self.llm.add_request(name, given, params, lora_request=adapter, priority=priority)
        return name

    def step(self) -> None:
        """One step of the engine."""
        for output in self.llm.step():
            assert isinstance(output, RequestOutput)
            if output.finished:
                self.answers[output.request_id] = _answer(output)

    def finish(self, *names: str) -> list[Answer]:
        """Step until these requests have ended."""
        self.step_until(
            lambda: all(name in self.answers for name in names), f"the end of {', '.join(names)}"
        )
        return [self.answers[name] for name in names]

    def step_until(self, condition: Callable[[], object], what: str) -> None:
        """Step until a condition holds; see `repeat_until`."""
        repeat_until(self.step, condition, what)

    def run(self, *prompts: Sequence[int], generate: int = 8, **how: Any) -> list[Answer]:
        """Answer prompts, all at once."""
        return self.finish(*[self.add(tokens, generate, **how) for tokens in prompts])

    def abort(self, name: str) -> None:
        """End a request before its time."""
        self.llm.abort_request([name])

    def forget(self) -> None:
        """Empty the engine's own prefix cache, and only that."""
        assert self.llm.reset_prefix_cache()

    def reset(self, *, running: bool = False) -> bool:
        """Empty the engine's prefix cache and the space at the daemon."""
        done = self.llm.reset_prefix_cache(reset_running_requests=running, reset_connector=True)
        return bool(done)

    def close(self) -> None:
        """Stop the engine."""
        self.llm.engine_core.shutdown()


class OpenEngine(Engine):
    """An engine in this process, whose inside a test may look at.

    Attributes:
        core, scheduler: vLLM's.
        scheduled: how many tokens each step computed; steps that computed none are left out.
        preempted_count: how often a request lost its blocks.
    """

    def __init__(
        self, model: Path, transfer: KVTransferConfig | None = None, **arguments: object
    ) -> None:
        super().__init__(model, transfer, **arguments)
        self.core = self.llm.engine_core.engine_core
        self.scheduler = self.core.scheduler
        self.scheduled: list[int] = []
        self.preempted_count = 0
        self._watch_schedule()

    @property
    def free_count(self) -> int:
        """Blocks that nobody uses."""
        return int(self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    @property
    def is_loading(self) -> bool:
        """Whether requests that do not run have blocks; vLLM cannot reset running ones then."""
        return bool(len(self.scheduler.kv_holding_waiting)) or any(
            request.is_finished() for request in self.scheduler.requests.values()
        )

    def attach(self) -> None:
        """Step until its memory is attached. Only for a while after that was begun it is waited for before it is a miss."""
        presence = self.scheduler.connector._half.half._presence
        repeat_until(
            lambda: self.run(SHORT, generate=1), presence.all_attached, "its memory attached"
        )

    def settle(self) -> None:
        """Step until the engine has nothing left to do."""
        self.step_until(lambda: not self.scheduler.has_requests(), "an engine at rest")

    def forget(self) -> None:
        """Empty the engine's own prefix cache, and only that, when it is at rest."""
        self.settle()
        super().forget()

    def computed_count(self, name: str) -> int:
        """Tokens of a running request whose KV is there."""
        return int(self.scheduler.requests[name].num_computed_tokens)

    def generated_count(self, name: str) -> int:
        """Tokens that a request has generated; 0 when it has ended."""
        request = self.scheduler.requests.get(name)
        return int(request.num_output_tokens) if request else 0

    def content(self, name: str) -> torch.Tensor:
        """KV of a running request's full blocks, [layer, block, ...]; of one group."""
        (blocks,) = self.scheduler.kv_cache_manager.get_block_ids(name)
        full = blocks[: self.computed_count(name) // BLOCK_TOKENS]
        layers = self.core.model_executor.driver_worker.worker.model_runner.kv_caches
        return torch.stack([layer[full] for layer in layers])

    def _watch_schedule(self) -> None:
        schedule = self.scheduler.schedule

        def watched(*arguments: object, **named: object) -> SchedulerOutput:
            output: SchedulerOutput = schedule(*arguments, **named)
            if output.total_num_scheduled_tokens:
                self.scheduled.append(output.total_num_scheduled_tokens)
            self.preempted_count += len(output.preempted_req_ids or ())
            return output

        self.scheduler.schedule = watched


@contextmanager
def started_engine(
    model: Path, transfer: KVTransferConfig | None = None, **arguments: object
) -> Iterator[OpenEngine]:
    """An engine in this process that is gone afterwards; its daemon may come later."""
    engine = OpenEngine(model, transfer, **arguments)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def running_engine(
    model: Path, transfer: KVTransferConfig | None = None, **arguments: object
) -> Iterator[OpenEngine]:
    """The same, and its memory is attached if it has a connector."""
    with started_engine(model, transfer, **arguments) as engine:
        if transfer is not None:
            engine.attach()
        yield engine


SHORT = prompt(0, 3)
"""Not a block, so it is neither looked up nor stored."""


def _answer(output: RequestOutput) -> Answer:
    (completion,) = output.outputs
    return Answer(
        tuple(completion.token_ids), output.num_cached_tokens or 0, str(completion.finish_reason)
    )
