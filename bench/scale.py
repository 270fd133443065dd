"""How much is measured."""

from enum import Enum


class Scale(Enum):
    """FULL for figures that are worth keeping, QUICK for a first look, TINY to see that a benchmark runs at all."""

    FULL = "full"
    QUICK = "quick"
    TINY = "tiny"
