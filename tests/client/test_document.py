"""docs/client.md: the example runs as it stands, and README.md shows the same."""

import re
from pathlib import Path

from support.kvstowd import running_kvstowd

ROOT = Path(__file__).parents[2]


def example_of(page: str) -> str:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return str(example)


def test_the_readme_shows_the_example_without_its_imports() -> None:
    assert example_of("docs/client.md").endswith("\n\n" + example_of("README.md"))


def test_the_example_stores_and_loads_real_bytes(socket: Path) -> None:
    example = example_of("docs/client.md")
    with running_kvstowd(socket.parent) as daemon:
        names: dict[str, object] = {"target": daemon.target}
        exec(example, names)  # noqa: S102 - our own document
    match names:
        case {"memory": memory, "hits": hits}:
            assert hits.count == 2  # type: ignore[attr-defined]
            assert memory.buffer[4 * 4096 : 6 * 4096] == memory.buffer[: 2 * 4096]  # type: ignore[attr-defined]
            assert memory.buffer[4 * 4096] == 1  # type: ignore[attr-defined]
        case _:
            raise AssertionError("the example has other names")
