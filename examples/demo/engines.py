"""The demo's engines: processes that can be asked, watched and killed.

The lines they understand are described in `examples.engine.serve`.
"""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_S = 600.0
"""Longer than anything takes on a slow machine; reached only when something is broken."""

BUDGET_S = 60.0
"""For what engines ask of the daemon: the demo shows what comes back, not what an engine does that does not wait for it."""


class EngineBroken(Exception):
    """An engine ended, fell silent, or said that something cannot be done."""


@dataclass(frozen=True, slots=True)
class Question:
    """What an engine can be asked."""

    document: str
    text: str
    max_new_tokens: int
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What it answers; see `examples.engine.request.Answer`."""

    text: str
    tokens: tuple[int, ...]
    prompt_tokens: int
    local_tokens: int
    external_tokens: int
    first_token_s: float
    total_s: float


class EngineProcess:
    """One engine; `close` or `kill` ends it.

    Args:
        name: For people.
        model: One of `examples.engine.models.ModelName`.
        target: The daemon.

    Attributes:
        session: Its session at the daemon.
        memory: The file its KV cache lies in, which outlives a killed engine.
        block_bytes: Size of one of its blocks.
    """

    def __init__(self, name: str, model: str, target: str) -> None:
        self.name = name
        self.session = 0
        self.memory = Path()
        self.block_bytes = 0
        command = [sys.executable, "-m", "examples.engine.serve", f"--budget={BUDGET_S}"]
        self._process = subprocess.Popen(
            [*command, "--name", name, "--model", model, "--daemon", target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is the demo's
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def wait_ready(self, on_unpack: Callable[[int, int], None]) -> None:
        """Wait until it takes questions.

        Args:
            on_unpack: Told how many layers of how many are unpacked, the first time ever.
        """
        ready = self._hear("ready", {"unpacking": on_unpack})
        self.session = ready["session"]
        self.memory = Path(ready["memory"])
        self.block_bytes = ready["block_bytes"]

    def begin_answer(self, question: Question) -> None:
        """Ask, and do not wait."""
        self._say("answer", **_facts(question), max_new_tokens=question.max_new_tokens)

    def finish_answer(self, on_progress: Callable[[int, int], None]) -> Answer:
        """Wait for the answer.

        Args:
            on_progress: Told how many tokens of the prompt, of how many, are done.
        """
        answer = self._hear("answer", {"progress": on_progress})
        answer.pop("event")
        return Answer(**{**answer, "tokens": tuple(answer["tokens"])})

    def count(self, question: Question) -> tuple[int, int]:
        """Blocks of the question's prompt that it finds in itself, and behind them in the daemon."""
        self._say("count", **_facts(question))
        counted = self._hear("count")
        return counted["local_blocks"], counted["external_blocks"]

    def drain(self) -> bool:
        """Wait until its copies have ended."""
        self._say("drain", timeout_s=PATIENCE_S / 2)
        return bool(self._hear("drained")["all_ended"])

    def report(self) -> dict[str, Any]:
        """What its session has counted; see `examples.engine.serve`."""
        self._say("report")
        return self._hear("report")

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Let it end by itself; if it does not, kill it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S / 20)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _say(self, do: str, **facts: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **facts}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise EngineBroken(f"{self.name} has ended") from error

    def _hear(
        self, event: str, meanwhile: dict[str, Callable[[int, int], None]] | None = None
    ) -> dict[str, Any]:
        """Wait for a line of this kind; hand lines that may come before it to who wants them."""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise EngineBroken(f"{self.name} has been silent for {PATIENCE_S} s") from None
            if not line:
                raise EngineBroken(f"{self.name} has ended")
            heard: dict[str, Any] = json.loads(line)
            if heard["event"] == event:
                return heard
            if heard["event"] == "error":
                raise EngineBroken(f"{self.name}: {heard['message']}")
            if meanwhile is not None and heard["event"] in meanwhile:
                meanwhile[heard["event"]](heard["done"], heard["total"])


def _facts(question: Question) -> dict[str, str]:
    return {
        "document": question.document,
        "question": question.text,
        "salt": question.salt,
    }
