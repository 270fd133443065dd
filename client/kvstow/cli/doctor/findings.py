"""What a check says."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad it is.

    OK: as it should be. WARNING: it works, or will, but worse than it could. FAILURE: engines are not
    served, or will not be.
    """

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check.

    Args:
        check: its name, which scripts may rely on.
        level: how bad it is.
        found: one line with the numbers.
        advice: one line that says what to do; empty if nothing needs to be done.
    """

    check: str
    level: Level
    found: str
    advice: str = ""

    def row(self) -> Mapping[str, str]:
        """As `--json` shows it."""
        return {
            "check": self.check,
            "level": self.level.value,
            "found": self.found,
            "advice": self.advice,
        }


def fine(check: str, found: str) -> Finding:
    """Nothing needs to be done."""
    return Finding(check, Level.OK, found)


def warning(check: str, found: str, advice: str) -> Finding:
    """It works, but worse than it could."""
    return Finding(check, Level.WARNING, found, advice)


def failure(check: str, found: str, advice: str) -> Finding:
    """Engines are not served, or will not be."""
    return Finding(check, Level.FAILURE, found, advice)
