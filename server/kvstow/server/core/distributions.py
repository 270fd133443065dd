"""How a quantity was spread: counts between fixed bounds, as a histogram of metrics wants them."""

from bisect import bisect_left
from copy import copy
from dataclasses import dataclass, field


@dataclass(slots=True)
class Distribution:
    """Counts that only rise.

    Args:
        bounds: upper bounds, rising; a value that equals one is counted under it.

    Attributes:
        counts: how many values lie up to each bound and above the one before it; the last one, above all bounds.
        total: the sum of all values.
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def copied(self) -> "Distribution":
        """A copy, which does not change any more."""
        fresh = copy(self)
        fresh.counts = self.counts.copy()
        return fresh

    def record(self, value: float, times: int = 1) -> None:
        """Count a value, `times` times over."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times
