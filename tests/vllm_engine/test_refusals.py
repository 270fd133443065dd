"""What the connector cannot do as it was told is refused when the engine starts."""

import pytest
from vllm.config import KVTransferConfig, SpeculativeConfig, VllmConfig
from vllm.distributed.kv_transfer import ensure_kv_transfer_shutdown
from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

from kvstow.client.engines.vllm.layout import Unsupported, check_supported
from vllm_engine.engine import connector, running_engine
from vllm_engine.tiny import tiny_llama


def refuse(transfer: KVTransferConfig, words: str) -> None:
    """An engine does not start, and says why."""
    try:
        with (
            pytest.raises(ValueError, match=words),
            running_engine(tiny_llama(), transfer),
        ):
            pytest.fail("the engine started")
    finally:
        # vLLM leaves these to the end of a process.
        ensure_kv_transfer_shutdown()
        cleanup_dist_env_and_memory()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lookup_budget": 1}, "did you mean 'lookup_budget_ms'"),
        ({"mode": "hasty"}, "must be one of"),
        ({"lazy_blocks": "many"}, "option .lazy_blocks. must be"),
    ],
)
def test_a_wrong_option(options: dict[str, object], words: str) -> None:
    refuse(connector("unix:/nowhere", **options), words)


def test_half_a_role() -> None:
    transfer = connector("unix:/nowhere")
    transfer.kv_role = "kv_producer"
    refuse(transfer, "kv_role must be 'kv_both'")


def test_drafts_with_a_cache_of_their_own() -> None:
    drafts = SpeculativeConfig.__new__(SpeculativeConfig)
    drafts.method = "eagle"
    config = VllmConfig()
    config.speculative_config = drafts
    with pytest.raises(Unsupported, match="drafts that have a KV cache"):
        check_supported(config)
