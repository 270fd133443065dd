"""What a figure is held against."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Goal:
    """One promise and how it fared.

    Args:
        text: what is measured.
        value: what was found.
        limit: what it is held against.
        at_least: the value must not be below the limit; otherwise not above.
    """

    text: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the promise is kept."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "met": self.met}


def table(goals: list[Goal]) -> Table:
    """All goals, with their values."""
    shown = Table(title="goals")
    for name in ("goal", "found", "limit"):
        shown.add_column(name, justify="left" if name == "goal" else "right")
    for goal in goals:
        shown.add_row(
            goal.text,
            f"[{'green' if goal.met else 'red'}]{goal.value:.2f}[/]",
            f"{'≥' if goal.at_least else '≤'} {goal.limit:g}",
        )
    return shown
