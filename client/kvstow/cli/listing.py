"""Tables and sentences that fit the screen. A number is shown whole or not at all.

Where a table is too wide, names are shortened and prose is broken first; then columns are left out, those first that the
table's maker can spare most, and a line says which. Pure: the width is known when it is printed.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

_GAP = 2
"""Between two columns."""


class Kind(Enum):
    """What a column holds, and how many cells it takes at least."""

    NUMBER = "a quantity, shown whole"
    WORD = "a word, shown whole"
    NAME = "what somebody named, shortened to fit"
    PROSE = "words for people, broken to fit"


NUMBER, WORD, NAME, PROSE = Kind
_LEAST = {NAME: 12, PROSE: 20}


class Listing:
    """A table.

    Args:
        title: above it; empty for none.
        columns: by name, from left to right.
        spare: names of columns that may be left out, the most dispensable first.
    """

    def __init__(self, title: str, columns: Mapping[str, Kind], spare: Sequence[str] = ()) -> None:
        self._title = title
        self._columns = columns
        self._spare = spare
        self._rows: list[Sequence[str]] = []

    def add_row(self, *cells: str) -> None:
        """Add a row, with a cell for each column."""
        self._rows.append(cells)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        natural = {
            name: max(map(cell_len, (name, *(row[at] for row in self._rows))))
            for at, name in enumerate(self._columns)
        }
        left_out = self._left_out(natural, options.max_width)
        widths = self._widths(natural, left_out, options.max_width)
        table = Table(box=None, pad_edge=False)
        for name, width in widths.items():
            kind = self._columns[name]
            table.add_column(
                name,
                justify="right" if kind is NUMBER else "left",
                width=width,
                no_wrap=kind is not PROSE,
                overflow="fold" if kind is PROSE else "ellipsis",
            )
        for row in self._rows:
            cells = zip(self._columns, row, strict=True)
            table.add_row(*(cell for name, cell in cells if name in widths))
        if self._title:
            yield Text(self._title)
        yield table
        if left_out:
            yield Text(f"not shown for lack of width: {', '.join(left_out)}")

    def _left_out(self, natural: Mapping[str, int], width: int) -> Sequence[str]:
        count = 0
        while count < len(self._spare) and (
            _total(self._least(natural, self._spare[:count])) > width
        ):
            count += 1
        return self._spare[:count]

    def _least(self, natural: Mapping[str, int], left_out: Sequence[str]) -> Mapping[str, int]:
        """What each column takes when names and prose are as short as they may be."""
        return {
            name: min(natural[name], _LEAST.get(kind, natural[name]))
            for name, kind in self._columns.items()
            if name not in left_out
        }

    def _widths(
        self, natural: Mapping[str, int], left_out: Sequence[str], width: int
    ) -> Mapping[str, int]:
        """Give what is left of the width to the columns that want more, names before prose."""
        widths = dict(self._least(natural, left_out))
        for kind in (NAME, PROSE):
            wanting = [name for name in widths if self._columns[name] is kind]
            for number, name in enumerate(wanting):
                share = max(0, width - _total(widths)) // (len(wanting) - number)
                widths[name] = min(natural[name], widths[name] + share)
        return widths


class Sentence:
    """A line of parts that are not broken: where it is too long, a further line begins with one of them.

    Args:
        parts: each with its comma, if it has one.
    """

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        first, *others = self._parts
        line = first
        for part in others:
            if cell_len(line) + 1 + cell_len(part) > options.max_width:
                yield Text(line)
                line = f" {part}"
            else:
                line = f"{line} {part}"
        yield Text(line)


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _GAP * max(0, len(widths) - 1)
