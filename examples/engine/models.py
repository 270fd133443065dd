"""Decides which models the engine can run and what a person sees while one is made ready."""

import os
from enum import StrEnum

import torch
from rich.console import Console
from rich.progress import Progress

from examples.engine.smollm import cache_directory, load_smollm2
from examples.engine.text import ByteTokenizer, ChatTokenizer
from examples.engine.weights import Weights, random_weights


class ModelName(StrEnum):
    """The models there are."""

    SMOLLM2 = "smollm2"
    TINY = "tiny"


def open_model(name: ModelName, console: Console) -> tuple[Weights, ChatTokenizer]:
    """Make a model ready to run, with a progress bar when it must be unpacked first.

    Raises:
        WeightsMissing: The weights are not installed.
    """
    torch.set_num_threads(min(len(os.sched_getaffinity(0)), 4))
    if name is ModelName.TINY:
        return random_weights(), ByteTokenizer()
    with Progress(console=console, transient=True) as bars:
        bar = bars.add_task("unpacking SmolLM2-135M-Instruct, once", visible=False)

        def show(done: int, total: int) -> None:
            bars.update(bar, completed=done, total=total, visible=True)

        return load_smollm2(cache_directory(), show)
