"""What a test that fails leaves running keeps nobody waiting."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.kvstowd import environment
from support.processes import running_process
from support.waiting import DEADLINE_S, wait_for

TESTS = Path(__file__).parent.parent
LEAVES = """
import sys
from pathlib import Path
from support.kvstowd import Kvstowd
daemon = Kvstowd(Path(sys.argv[1]))
daemon.wait_line("ready")
print(daemon.process.pid, flush=True)
raise AssertionError
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_daemon_ends_with_the_tests_that_began_it(directory: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEAVES, str(directory)],
        env={**environment(), "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=3 * DEADLINE_S,  # two processes begin, one after the other
        check=False,
    )
    assert ended.returncode == 1
    wait_for(lambda: not is_running(int(ended.stdout)), "the end of the daemon")


def test_a_process_ends_with_the_test_that_began_it() -> None:
    with pytest.raises(ZeroDivisionError), running_process(["sleep", "3600"]) as process:
        raise ZeroDivisionError
    assert process.poll() is not None
