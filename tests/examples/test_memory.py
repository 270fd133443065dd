"""The shared-memory file: where its bytes lie, who may open it, and when it goes."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from examples.engine.memory import KvLayout, KvMemory

LAYOUT = KvLayout(layer_count=3, block_count=5, kv_head_count=2, head_dim=4)
ANOTHER_ENGINE = """
import sys
from examples.engine.memory import KvLayout, KvMemory
memory = KvMemory(KvLayout(1, 1, 1, 1))
print(memory.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def another_engine() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a KV cache of its own, and its file."""
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER_ENGINE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        yield process, path
        process.kill()
    path.unlink(missing_ok=True)


def test_a_block_of_a_layer_is_one_piece_of_the_file() -> None:
    with closing(KvMemory(LAYOUT)) as memory:
        memory.tensor[2, 3] = 7.0
        content = memory.path.read_bytes()
    offset = 2 * LAYOUT.layer_bytes + 3 * LAYOUT.block_bytes
    piece = content[offset : offset + LAYOUT.block_bytes]
    assert len(content) == LAYOUT.size_bytes
    assert set(memoryview(piece).cast("f")) == {7.0}
    assert not any(content[:offset])
    assert not any(content[offset + LAYOUT.block_bytes :])


def test_the_file_is_private_and_goes_with_its_engine() -> None:
    with closing(KvMemory(LAYOUT)) as memory:
        assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600
    assert not memory.path.exists()


def test_what_does_not_fit_leaves_no_file_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []

    def refuse(descriptor: int, offset: int, length: int) -> None:
        opened.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        raise OSError("no room")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="no room"):
        KvMemory(LAYOUT)
    assert [path.exists() for path in opened] == [False]


def test_the_file_of_a_killed_engine_goes_when_the_next_one_starts(
    another_engine: tuple[subprocess.Popen[str], Path],
) -> None:
    process, path = another_engine
    with closing(KvMemory(LAYOUT)):
        assert path.exists(), "its engine lives"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.exists()
    with closing(KvMemory(LAYOUT)):
        assert not path.exists()
