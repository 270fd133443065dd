"""Scenario scripts: commands, what must come of them, and prose that says why.

A step is a command, a line `----`, and the outcome up to the next blank line:

    # The pool takes the leading blocks that fit.
    store A 1 keys=1..6
    ----
    1..4 ACCEPTED in slots 0..3
    5,6 NO_SPACE

A command is a verb, words, and options `name=value`. Lines that begin with # and blank lines between steps are prose.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

RULE = "----"


@dataclass(frozen=True, slots=True)
class Command:
    """One line of a script, cut into pieces.

    Attributes:
        asked: the options that somebody wanted to know; any other one is a mistake in the script.
    """

    verb: str
    words: tuple[str, ...]
    options: dict[str, str]
    asked: set[str] = field(default_factory=set)

    def word(self, position: int) -> str:
        """The word at this position after the verb, "" if there are not so many."""
        return self.words[position] if position < len(self.words) else ""

    def has(self, name: str) -> bool:
        """Whether there is such an option."""
        self.asked.add(name)
        return name in self.options

    def option(self, name: str, default: str = "") -> str:
        """The value of an option."""
        return self.options[name] if self.has(name) else default

    def number(self, name: str, default: int) -> int:
        """The value of an option that is a whole number."""
        return int(self.option(name, str(default)))

    def seconds(self, name: str, default: float) -> float:
        """The value of an option like `5s`."""
        return seconds(self.option(name, f"{default}s"))

    def numbers(self, name: str, default: str = "") -> list[int]:
        """The value of an option like `1,2,7..9`."""
        return numbers(self.option(name, default))

    def groups(self, name: str) -> list[list[int]]:
        """The value of an option like `1,2/7..9`: numbers of group 0, numbers of group 1, ..."""
        return [numbers(part) for part in self.option(name).split("/")]


def command(line: str) -> Command:
    """Cut a line into pieces."""
    verb, *rest = line.split()
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    return Command(verb, tuple(word for word in rest if "=" not in word), options)


def seconds(text: str) -> float:
    """Read a duration like `5s` or `0.5s`."""
    if not text.endswith("s"):
        raise ValueError(f"a duration is written like 5s, not {text!r}")
    return float(text.removesuffix("s"))


def numbers(text: str) -> list[int]:
    """Read numbers like `1,2,7..9`."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("..")
        found += range(int(first), int(last or first) + 1)
    return found


def replay(text: str, run: Callable[[Command], str]) -> str:
    """Run every command of a script in order.

    Args:
        text: the script.
        run: runs one command and says what came of it, in one line or more.

    Returns:
        The script with the outcomes as they came.

    Raises:
        ValueError: a step has no rule, or the script has no step.
    """
    written: list[str] = []
    step_count = 0
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        written.append(line)
        if line and not line.startswith("#"):
            _skip_outcome(lines, number)
            written += [RULE, *run(command(line)).splitlines(), ""]
            step_count += 1
    if not step_count:
        raise ValueError("the script has no step")
    return "\n".join(written).rstrip("\n") + "\n"


def _skip_outcome(lines: Iterator[tuple[int, str]], number: int) -> None:
    if next(lines, (0, ""))[1] != RULE:
        raise ValueError(f"line {number}: the step has no {RULE}")
    for _, line in lines:
        if not line:
            return
