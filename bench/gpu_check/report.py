"""What came out: rows as they come, a table last, JSON beside it, whatever breaks or hangs."""

import faulthandler
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

OK, MISSED, FAILED, SAID = "ok", "MISSED", "FAILED", ""
LAST_RESORT_S = 5.0
"""How much later the process ends if even its last words hang."""


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
        path: where it is written, after each part; None: nowhere.
        numbers: measured, for whoever reckons with them.
    """

    facts: dict[str, str]
    limit_s: float
    path: Path | None = None
    rows: list[Row] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    doing: str = ""
    _prefix: str = ""

    @property
    def is_late(self) -> bool:
        """Whether nothing more is to be begun."""
        return time.monotonic() - self.began > self.limit_s

    @contextmanager
    def under(self, name: str) -> Iterator[None]:
        """What is found while the block runs has this name before it."""
        self._prefix = f"{name}: "
        try:
            yield
        finally:
            self._prefix = ""

    def add(self, part: str, what: str, result: str, verdict: str = SAID) -> None:
        """A result; shown at once, in case that the end is not reached."""
        part = self._prefix + part
        self.rows.append(Row(part, what, result, verdict))
        print(
            f"{time.monotonic() - self.began:6.1f} s  {part}: {what}: {result} {verdict}",
            flush=True,
        )

    def count(self, name: str, value: float) -> None:
        """A number that was measured."""
        self.numbers[self._prefix + name] = value

    def run(self, part: str, work: Callable[[], None]) -> None:
        """Do a part of the check; its failure keeps no other from being done."""
        if self.is_late:
            self.add(part, "not begun", f"{self.limit_s:.0f} s are over", MISSED)
            return
        began, before, self.doing = time.monotonic(), self.doing, self._prefix + part
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a result
            self.add(part, "broken off", f"{type(error).__name__}: {error}", FAILED)
        self.doing = before
        self.count(f"seconds of {part}", round(time.monotonic() - began, 2))
        self.write()

    @contextmanager
    def ending_after(self, limit_s: float) -> Iterator[None]:
        """End the process if the block runs longer than that: say what it is at, write, show the table, end what it started."""

        def give_up() -> None:
            self.add(self.doing, "hangs", f"{limit_s:.0f} s are over", FAILED)
            self.write()
            self.show()
            end_children()
            os._exit(1)

        timer = threading.Timer(limit_s, give_up)
        timer.daemon = True
        timer.start()
        faulthandler.dump_traceback_later(limit_s + LAST_RESORT_S, exit=True, file=2)
        try:
            yield
        finally:
            timer.cancel()
            faulthandler.cancel_dump_traceback_later()

    @property
    def passed(self) -> bool:
        """Whether everything is as promised."""
        return all(row.verdict in (OK, SAID) for row in self.rows)

    def write(self) -> None:
        """Write it as JSON."""
        if self.path is None:
            return
        rows = [asdict(row) for row in self.rows]
        everything = {"facts": self.facts, "rows": rows, "numbers": self.numbers}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(everything, indent=1) + "\n")

    def show(self) -> None:
        """Print the table."""
        print("\n" + ", ".join(f"{name} {value}" for name, value in self.facts.items()))
        widths = [max((len(text) for text in column), default=0) for column in self._columns()]
        for row in self.rows:
            cells = (row.part, row.what, row.result)
            padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            print("  ".join([*padded, row.verdict]).rstrip())
        verdict = "everything" if self.passed else "NOT everything"
        print(f"{verdict} is as promised", flush=True)

    def _columns(self) -> list[list[str]]:
        return [
            [row.part for row in self.rows],
            [row.what for row in self.rows],
            [row.result for row in self.rows],
        ]


def end_children() -> None:
    """Kill the processes that this one has started: a daemon that nobody ends would outlive it."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
        if parent == os.getpid():
            os.kill(int(stat.parent.name), signal.SIGKILL)
