"""Writes the table of settings into docs/configuration.md, or with `--check` says whether it is up to date.

Run from the root of the repository.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from kvstow.server.config import PREFIX, Config
from kvstow.server.sizes import Bytes

PAGE = Path("docs/configuration.md")
BEGIN, END = "<!-- settings -->\n", "<!-- end of settings -->\n"
HEAD = "| setting | variable | default | range | meaning |\n|---|---|---|---|---|\n"
DERIVED = {"socket": "`$XDG_RUNTIME_DIR/kvstow/kvstow.sock`, else `/run/kvstow/kvstow.sock`"}
"""Defaults that depend on where the daemon runs."""


def row(name: str, field: FieldInfo) -> str:
    """One setting as a line of the table."""
    cells = (
        f"`{name}`",
        f"`{PREFIX}{name.upper()}`",
        DERIVED.get(name) or default(field.default),
        ", ".join(bounds(field)),
        (field.description or "").replace("|", "\\|"),
    )
    return f"| {' | '.join(cells)} |\n"


def default(value: object) -> str:
    """A default as a flag would give it."""
    match value:
        case None:
            return "none"
        case "":
            return "empty"
        case bool():
            return str(value).lower()
    return str(value)


def bounds(field: FieldInfo) -> Iterator[str]:
    """What values are taken, where that is a choice or a range."""
    choices = [part for part in (field.annotation, *get_args(field.annotation)) if is_choice(part)]
    yield from (f"`{value}`" for choice in choices for value in get_args(choice))
    if field.annotation is bool:
        yield "`true`, `false`"
    for bound in field.metadata:
        match bound:
            case annotated_types.Ge(ge=least):
                yield f"at least {number(least)}"
            case annotated_types.Gt(gt=below):
                yield f"more than {number(below)}"
            case annotated_types.Le(le=most):
                yield f"at most {number(most)}"
            case annotated_types.MultipleOf(multiple_of=step):
                yield f"a multiple of {step}"


def is_choice(annotation: object) -> bool:
    """Whether it lists the values that are taken."""
    return get_origin(annotation) is Literal


def number(value: object) -> str:
    """A bound, sizes to the byte."""
    match value:
        case Bytes():
            return value.exact()
        case float():
            return f"{value:g}"
    return f"{value}"


def page(text: str) -> str:
    """The page with a fresh table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "".join(row(name, field) for name, field in Config.model_fields.items())
    return f"{before}{BEGIN}{HEAD}{table}{END}{after}"


def main() -> int:
    """Write the page, or check it."""
    text = PAGE.read_text(encoding="utf-8")
    fresh = page(text)
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(fresh, encoding="utf-8")
    elif fresh != text:
        print(f"{PAGE} differs from the settings in the code: run 'make settings-page'")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
