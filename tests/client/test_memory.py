"""Engine memory: whose it is, and what is left of it."""

import sys
import tempfile
from pathlib import Path

import pytest

from kvstow.client import EngineMemory
from kvstow.client.memory import DIRECTORY
from support.processes import running_process


def test_the_files_of_a_killed_engine_are_gone_with_the_next_one() -> None:
    program = "import time; from kvstow.client import EngineMemory as M; m = M(4096); print(m.path, flush=True); time.sleep(600)"
    with running_process([sys.executable, "-c", program]) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        assert path.stat().st_mode & 0o777 == 0o600
        with EngineMemory(4096):
            assert path.exists()  # its process lives
    with EngineMemory(4096) as memory:
        assert not path.exists()
        assert memory.path.parent == DIRECTORY
    assert not memory.path.exists()


def test_it_lies_where_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon opens the file by its path, wherever either of them was started."""
    monkeypatch.chdir(tmp_path)
    Path("inner").mkdir()
    with EngineMemory(4096, Path("inner")) as memory:
        assert memory.path.parent == tmp_path / "inner"
        assert memory.region().shared_memory.path == str(memory.path)
    assert not memory.path.exists()
    with pytest.raises(FileNotFoundError):
        EngineMemory(4096, tmp_path / "nowhere")


def test_what_others_put_beside_it_is_left_alone(tmp_path: Path) -> None:
    directory, link = tmp_path / "kvstow-memory-1", tmp_path / "kvstow-memory-2"
    directory.mkdir()
    link.symlink_to("/dev/null")
    with EngineMemory(4096, tmp_path) as memory:
        assert set(tmp_path.iterdir()) == {directory, link, memory.path}


def test_closing_it_twice_closes_nothing_of_others() -> None:
    memory = EngineMemory(4096)
    memory.close()
    with tempfile.TemporaryFile() as other:  # has the number that the memory's file had
        memory.close()
        other.write(b"still open")
        other.flush()
