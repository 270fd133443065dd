"""What the example engine's tests share."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Products as small as the tiny model's lose more to waiting threads than they gain."""
    torch.set_num_threads(1)
