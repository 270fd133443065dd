"""What came out: rows as they come, a table last, JSON beside it."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

OK, MISSED, FAILED, SAID = "ok", "MISSED", "FAILED", ""


@dataclass(frozen=True, slots=True)
class Row:
    """One result.

    Args:
        part: of the check.
        what: was looked at.
        result: in words.
        verdict: whether it is as promised; empty where nothing was.
    """

    part: str
    what: str
    result: str
    verdict: str = SAID


@dataclass(slots=True)
class Report:
    """Everything.

    Args:
        facts: what it was done on.
        limit_s: when nothing more is begun.
        numbers: measured, for whoever reckons with them.
    """

    facts: dict[str, str]
    limit_s: float
    rows: list[Row] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def add(self, part: str, what: str, result: str, verdict: str = SAID) -> None:
        """A result; shown at once, in case that the end is not reached."""
        self.rows.append(Row(part, what, result, verdict))
        print(
            f"{time.monotonic() - self.began:6.1f} s  {part}: {what}: {result} {verdict}",
            flush=True,
        )

    def run(self, part: str, work: Callable[[], None]) -> None:
        """Do a part of the check; its failure keeps no other from being done."""
        if time.monotonic() - self.began > self.limit_s:
            self.add(part, "not begun", f"{self.limit_s:.0f} s are over", MISSED)
            return
        began = time.monotonic()
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a result
            self.add(part, "broken off", f"{type(error).__name__}: {error}", FAILED)
        self.numbers[f"seconds of {part}"] = round(time.monotonic() - began, 2)

    @property
    def passed(self) -> bool:
        """Whether everything is as promised."""
        return all(row.verdict in (OK, SAID) for row in self.rows)

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        rows = [asdict(row) for row in self.rows]
        everything = {"facts": self.facts, "rows": rows, "numbers": self.numbers}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(everything, indent=1) + "\n")

    def show(self) -> None:
        """Print the table."""
        print("\n" + ", ".join(f"{name} {value}" for name, value in self.facts.items()))
        widths = [max((len(text) for text in column), default=0) for column in self._columns()]
        for row in self.rows:
            cells = (row.part, row.what, row.result)
            padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            print("  ".join([*padded, row.verdict]).rstrip())
        print("everything is as promised" if self.passed else "NOT everything is as promised")

    def _columns(self) -> list[list[str]]:
        return [
            [row.part for row in self.rows],
            [row.what for row in self.rows],
            [row.result for row in self.rows],
        ]
