"""Decides which models the engine can run, and with how many threads."""

import os
from collections.abc import Callable
from enum import StrEnum

import torch

from examples.engine.package import packaged_gguf
from examples.engine.text import ByteTokenizer, ChatTokenizer
from examples.engine.unpack import cache_directory, load_gguf
from examples.engine.weights import Weights, random_weights


class ModelName(StrEnum):
    """The models there are."""

    SMOLLM2 = "smollm2"
    TINY = "tiny"


def open_model(
    name: ModelName, on_unpack: Callable[[int, int], None]
) -> tuple[Weights, ChatTokenizer]:
    """Make a model ready to run.

    Args:
        name: Which.
        on_unpack: Told, when it must be unpacked first, how many layers of how many are done.

    Raises:
        WeightsMissing: The weights are not installed.
    """
    if name is ModelName.TINY:
        use_threads(1)  # products this small lose more to waiting than they gain
        return random_weights(), ByteTokenizer()
    use_threads(4)
    return load_gguf(packaged_gguf(), cache_directory(), on_unpack)


def use_threads(limit: int) -> None:
    """Compute with at most so many threads, and not with more than this process has cores."""
    torch.set_num_threads(min(len(os.sched_getaffinity(0)), limit))
