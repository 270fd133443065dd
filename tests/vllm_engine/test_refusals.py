"""What the connector cannot do as it was told is refused when the engine starts."""

import pytest
from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

from vllm_engine.engine import connector, running_engine
from vllm_engine.tiny import tiny_llama


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lookup_budget": 1}, "did you mean 'lookup_budget_ms'"),
        ({"mode": "hasty"}, "must be one of"),
        ({"lazy_blocks": "many"}, "option .lazy_blocks. must be"),
    ],
)
def test_a_wrong_option(options: dict[str, object], words: str) -> None:
    try:
        with (
            pytest.raises(ValueError, match=words),
            running_engine(tiny_llama(), connector("unix:/nowhere", **options)),
        ):
            pytest.fail("the engine started")
    finally:
        cleanup_dist_env_and_memory()  # vLLM leaves it to the end of a process


def test_half_a_role() -> None:
    transfer = connector("unix:/nowhere")
    transfer.kv_role = "kv_producer"
    try:
        with (
            pytest.raises(ValueError, match="kv_role must be 'kv_both'"),
            running_engine(tiny_llama(), transfer),
        ):
            pytest.fail("the engine started")
    finally:
        cleanup_dist_env_and_memory()
