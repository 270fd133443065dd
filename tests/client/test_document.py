"""docs/client.md: the example runs as it stands."""

import re
from pathlib import Path

from support.kvstowd import running_kvstowd

DOCUMENT = Path(__file__).parents[2] / "docs" / "client.md"


def test_the_example_stores_and_loads_real_bytes(socket: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
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
