"""A request that is scheduled and loses its blocks to a more urgent one in the same step.

vLLM gives the blocks names before anything is computed into them, leaves the names, and goes on with what they hold:
its own answers may be wrong then. What is at kvstow must be right all the same.
"""

import pytest

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, OpenEngine, connector, prompt, running_engine
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

BLOCK_COUNT = 21
CHUNK = 4 * BLOCK_TOKENS
VICTIM = prompt(1, 600)
URGENT = prompt(2, CHUNK + 20)
OTHERS = [prompt(seed, 600) for seed in (3, 4)]
FEW: dict[str, object] = {
    "num_gpu_blocks_override": BLOCK_COUNT,
    "max_model_len": 640,
    "long_prefill_token_threshold": CHUNK,
    "scheduling_policy": "priority",
}


def misname(engine: OpenEngine) -> None:
    """Preempt a request in the step in which it was scheduled, and let it end."""
    names = [engine.add(VICTIM, priority=1)]
    engine.step()
    names.append(engine.add(URGENT, priority=0))
    engine.step_until(lambda: engine.preempted_count, "a preemption")
    assert engine.scheduled[-1] < CHUNK, "the victim was taken out of the step again"
    engine.finish(*names)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_what_is_stored_is_what_was_computed(daemon: Kvstowd, books: Books, mode: str) -> None:
    with running_engine(tiny_llama(), enable_prefix_caching=False) as engine:
        expected = [answer.tokens for answer in engine.run(VICTIM, URGENT)]
    options = connector(daemon.target, mode=mode, tenant=f"priority {mode}", **PATIENT)
    with running_engine(tiny_llama(), options, **FEW) as engine:
        engine.run(*OTHERS)  # so that every block was in use before
        misname(engine)
        engine.run(*OTHERS)  # so that every block is evicted, and stored in lazy mode
        engine.settle()
    books.wait_quiet()
    with running_engine(tiny_llama(), options) as engine:
        answers = engine.run(VICTIM, URGENT)
        engine.settle()
    books.wait_quiet()
    assert [answer.tokens for answer in answers] == expected
    assert all(answer.cached_count for answer in answers)
