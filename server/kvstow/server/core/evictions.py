"""What is counted of blocks that left by policy."""

from dataclasses import dataclass, field, replace

from .distributions import Distribution

AGE_BOUNDS_S = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
"""Of the ages at which blocks are evicted: less than a minute is a pool far too small, more than a day a large one."""


@dataclass(slots=True)
class Evictions:
    """Blocks that left by policy, over all spaces since the start; every field only rises.

    Attributes:
        capacity: to make room for others of their slot size.
        reclaimed: because their extent was taken for another slot size.
        age_s: of the first kind, seconds since their last use; two blocks of each batch stand for the batch.
    """

    capacity: int = 0
    reclaimed: int = 0
    age_s: Distribution = field(default_factory=lambda: Distribution(AGE_BOUNDS_S))

    def copied(self) -> "Evictions":
        """A copy, which does not change any more."""
        return replace(self, age_s=self.age_s.copied())
