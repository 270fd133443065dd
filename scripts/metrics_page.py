"""Write the tables of docs/metrics.md from the families that the daemon declares.

Run from the root of the repository; with `--check` nothing is written, and the exit code is 1 when the page is not fresh.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from kvstow.server.metrics.families import SECTIONS
from kvstow.server.metrics.family import Family

PAGE = Path("docs/metrics.md")
BEGIN, END = "<!-- tables: make metrics-page -->\n", "<!-- end of the tables -->\n"


def tables() -> Iterator[str]:
    """Yield the lines of all tables."""
    for title, families in SECTIONS:
        yield f"\n### {title}\n\n"
        yield "| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n"
        for family in families:
            yield row(family)
    yield "\n"


def row(family: Family) -> str:
    """Return the line of one family."""
    labels = "<br>".join(f"`{name}`: {values}" for name, values in family.labels)
    return f"| `{family.name}` | {family.kind.value} | {family.unit} | {labels} | {family.meaning} |\n"


def fresh(page: str) -> str:
    """Return the page with its tables made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "".join([before, BEGIN, *tables(), END, after])


def main() -> int:
    """Write the page, or compare it."""
    page = PAGE.read_text(encoding="utf-8")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(fresh(page), encoding="utf-8")
        return 0
    if page == fresh(page):
        return 0
    print(f"{PAGE} differs from what the daemon exports: run 'make metrics-page'")
    return 1


if __name__ == "__main__":
    sys.exit(main())
