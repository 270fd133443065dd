"""docs/client.md: the example runs as it stands, and README.md shows the same."""

import re
from pathlib import Path

import pytest

from kvstow.client import default_target
from support.kvstowd import running_kvstowd

ROOT = Path(__file__).parents[2]


def example_of(page: str) -> str:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return str(example)


def test_the_readme_shows_the_same_example() -> None:
    assert example_of("README.md") == example_of("docs/client.md")


def test_the_example_stores_and_loads_real_bytes(
    socket: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands: with the daemon where it is without further words."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(socket.parent))
    names: dict[str, object] = {}
    with running_kvstowd(Path(default_target().removeprefix("unix:")).parent):
        exec(example_of("docs/client.md"), names)  # noqa: S102 - our own document
    assert capsys.readouterr().out == "2 blocks came back\n"
    match names:
        case {"memory": memory, "hits": hits}:
            assert hits.count == 2  # type: ignore[attr-defined]
            assert memory.buffer[4 * 4096 : 6 * 4096] == memory.buffer[: 2 * 4096]  # type: ignore[attr-defined]
            assert memory.buffer[4 * 4096] == 1  # type: ignore[attr-defined]
        case _:
            raise AssertionError("the example has other names")
