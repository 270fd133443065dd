"""A page's commands, run one after the other in one shell, as a person types them into one terminal.

What stands between the commands and their outcome here: ports that another process may have are replaced by others that
nobody else gets meanwhile, and the checkout is a folder of links, so that files the commands make stay out of the real one.
"""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from docs.pages import ROOT, Block
from support.kvstowd import environment

PORTS = ("9477", "9478", "9090")
"""Of the daemon, of metrics and of Prometheus."""

COPIED = ("examples/prometheus.yaml",)
"""Files that name ports."""

OWN = (".git", ".tools", ".venv", "examples")
"""What is not a link in the checkout of a session: it is left out, or a folder of links itself."""

LIMIT_S = 560.0


@dataclass(frozen=True, slots=True)
class Typed:
    """A block that was typed.

    Args:
        block: the commands.
        output: what they printed.
    """

    block: Block
    output: str

    def shows(self, line: str) -> bool:
        """Whether the output has a line like this one; figures and paths may differ."""
        words = [r"\S+" if re.search(r"[\d/]", word) else re.escape(word) for word in line.split()]
        return re.search(r"\s+".join(words), self.output) is not None


class Checkout:
    """A folder that looks like the root of the repository.

    Args:
        directory: empty.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._reserved = [_reserved_port() for _ in PORTS]
        here = [str(reserved.getsockname()[1]) for reserved in self._reserved]
        self.ports = dict(zip(PORTS, here, strict=True))
        self.runtime = directory / "run"
        self.runtime.mkdir(mode=0o700)
        for path in ROOT.iterdir():
            if path.name not in OWN:
                (directory / path.name).symlink_to(path)
        for folder in (".tools", ".venv", "examples"):
            (directory / folder).mkdir()
            for path in (ROOT / folder).iterdir() if (ROOT / folder).exists() else ():
                if (
                    folder != ".tools" or path.is_dir()
                ):  # files there are what somebody's commands wrote
                    (directory / folder / path.name).symlink_to(path)
        for name in COPIED:
            (directory / name).unlink()
            (directory / name).write_text(self.moved((ROOT / name).read_text(encoding="utf-8")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for reserved in self._reserved:
            reserved.close()

    def moved(self, text: str) -> str:
        """A text with the ports of this session."""
        for written, here in self.ports.items():
            text = text.replace(written, here)
        return text

    def type(self, blocks: Sequence[Block]) -> list[Typed]:
        """Type all blocks into one shell; what they started is gone afterwards.

        Raises:
            AssertionError: a command failed, or they did not end.
        """
        script = "\n".join(
            f"echo '@@{number}'\n{self.moved(block.text)}" for number, block in enumerate(blocks)
        )
        shell = subprocess.Popen(
            ["bash", "-euc", f"exec 2>&1\n{script}"],
            cwd=self.directory,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = shell.communicate(timeout=LIMIT_S)
            outcome = f"failed with exit code {shell.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            output, _ = shell.communicate()
            outcome = f"did not end in {LIMIT_S:.0f} s"
        finally:
            _end(shell)
        parts = re.split(r"^@@\d+\n", output, flags=re.MULTILINE)[1:]
        typed = [Typed(block, part) for block, part in zip(blocks, parts, strict=False)]
        assert shell.returncode == 0, (
            f"{typed[-1].block} {outcome}:\n{typed[-1].output}\n{self.logs()}"
        )
        return typed

    def logs(self) -> str:
        """The ends of the files that commands wrote instead of printing."""
        logs = sorted((self.directory / ".tools").glob("*.log"))
        return "\n".join(f"{log.name} ends with:\n{log.read_text()[-2000:]}" for log in logs)

    def _environment(self) -> dict[str, str]:
        return {
            **environment(),
            "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}",
            "XDG_RUNTIME_DIR": str(self.runtime),
            "KVSTOW_METRICS_LISTEN": f"127.0.0.1:{self.ports['9478']}",
            "COLUMNS": "160",
        }


def _reserved_port() -> socket.socket:
    """A port that the system gives to nobody who does not name it; a server that may reuse addresses can listen there."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def _end(shell: subprocess.Popen[str]) -> None:
    """End whatever is left of the session."""
    try:
        os.killpg(shell.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    shell.wait()
    assert shell.stdout is not None
    shell.stdout.close()
