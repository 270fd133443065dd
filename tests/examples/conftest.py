"""What the example engine's tests share."""

import pytest

from examples.engine.models import use_threads


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Products as small as the tiny model's lose more to waiting threads than they gain."""
    use_threads(1)
