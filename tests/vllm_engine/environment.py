"""What must be set before vLLM is imported."""

import os


def prepare_environment() -> None:
    """vLLM on the CPU, offline, in this process, with requests called what they are called here."""
    os.environ.update(
        HF_HUB_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_CPU_OMP_THREADS_BIND="nobind",
        VLLM_DISABLE_REQUEST_ID_RANDOMIZATION="1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_LOGGING_LEVEL="WARNING",
        VLLM_NO_USAGE_STATS="1",
    )
