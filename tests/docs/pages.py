"""The pages people read: their fenced blocks, their headings and their links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    r"(?:\$ )?(?:\.venv/bin/)?"
    r"(?:apt-get|cp|curl|docker|head|kill|kubectl|kvstowd?|make|mkdir|pip|podman|prometheus|python3?|runuser|systemctl|vllm)\b"
)
"""What a line begins with that is a command for a shell."""

SHELLS = ("sh", "bash", "console", "shell")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Args:
        page: from the root of the repository.
        line: where it begins.
        language: what its fence says; empty if nothing.
        text: what is in it.
    """

    page: str
    line: int
    language: str
    text: str

    @property
    def is_commands(self) -> bool:
        """Whether a reader takes it for something to type into a shell, whatever the fence says."""
        if self.language in SHELLS:
            return True
        return not self.language and re.match(COMMANDS, self.text) is not None

    @property
    def first_line(self) -> str:
        """Its first line, without comment and surrounding blanks."""
        return self.text.splitlines()[0].split("  #")[0].strip()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Link:
    """A link to something in the repository, as it is written."""

    page: str
    target: str

    def __str__(self) -> str:
        return f"{self.page} -> {self.target}"


def read(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def documentation() -> list[str]:
    """README.md and everything under docs/."""
    return ["README.md", *_under("docs")]


def all_pages() -> list[str]:
    """Every page that people read."""
    return [
        *documentation(),
        "CONTRIBUTING.md",
        *_under("bench"),
        *_under("examples"),
    ]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = []
    text = read(page)
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[1], match[2]))
    return found


def prose(page: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)


def links(page: str) -> list[Link]:
    """Links of a page that stay within the repository."""
    written = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [Link(page, target) for target in written if not re.match(r"[a-z]+:", target)]


def anchors(page: str) -> set[str]:
    """What a link to a part of the page may name: its headings, as GitHub turns them into anchors."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return set(_numbered(_anchor(heading) for heading in headings))


def _anchor(heading: str) -> str:
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


def _numbered(names: Iterator[str]) -> Iterator[str]:
    """A name that came before gets a number."""
    seen: dict[str, int] = {}
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        yield f"{name}-{count}" if count else name


def _under(folder: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.md"))
