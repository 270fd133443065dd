"""Quantities as people read them."""

import pytest

from kvstow.cli.words import duration, ratio, size


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 29, "1.5 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_sizes(count: int, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (59, "59 s"), (61, "1 min 1 s"), (3700, "1 h 1 min"), (90000, "1 d 1 h")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_ratios() -> None:
    assert (ratio(0, 0), ratio(0, 3), ratio(1, 3)) == ("-", "0.0 %", "33.3 %")
