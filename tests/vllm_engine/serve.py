"""An engine as a process of its own, for tests that kill it: `python -m vllm_engine.serve MODEL TARGET`.

Says "ready", then reads a line of JSON for each batch of prompts and writes one with the answers; or it is told to forget
its own cache, or to reset the space, too. Whether vLLM's engine runs in yet another process is for
VLLM_ENABLE_V1_MULTIPROCESSING to say.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vllm_engine.books import open_books
from vllm_engine.engine import PATIENT, SHORT, Answer, Engine, connector, repeat_until

_TESTS = Path(__file__).parent.parent


class EngineProcess:
    """What runs this module, with a separate engine process beneath it.

    Args:
        model: directory of the model.
        target: of the daemon.
        arguments: of vLLM, beside the usual ones.
    """

    def __init__(self, model: Path, target: str, **arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "vllm_engine.serve", str(model), target, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
                "PYTHONPATH": str(_TESTS),
            },
            start_new_session=True,
        )
        assert self._read() == "ready"

    def run(self, *prompts: Sequence[int], generate: int = 8) -> list[Answer]:
        """Answer prompts, all at once."""
        answers = self._ask({"prompts": prompts, "generate": generate})
        return [Answer(**{**each, "tokens": tuple(each["tokens"])}) for each in answers]

    def forget(self) -> None:
        """Empty the engine's own prefix cache, and only that."""
        self._ask({"forget": True})

    def reset(self) -> bool:
        """Empty the engine's prefix cache and the space at the daemon."""
        return bool(self._ask({"reset": True}))

    def kill(self) -> None:
        """Take it away at once, with all processes that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _ask(self, what: dict[str, object]) -> Any:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the engine ended: {self._process.wait()}"
        return json.loads(line)


@contextmanager
def engine_process(model: Path, target: str, **arguments: object) -> Iterator[EngineProcess]:
    """An engine in other processes that are gone afterwards; its memory is attached."""
    with open_books(target) as books:
        others = books.attached_sessions()
        process = EngineProcess(model, target, **arguments)
        try:
            repeat_until(
                lambda: process.run(SHORT, generate=1),
                lambda: books.attached_sessions() - others,
                "its memory attached",
            )
            yield process
        finally:
            process.kill()


def main() -> None:
    """Answer until the input ends."""
    model, target, arguments = sys.argv[1:]
    # vLLM writes its log to standard output, where the answers go.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = Engine(Path(model), connector(target, **PATIENT), **json.loads(arguments))
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(engine, json.loads(line))), file=answers, flush=True)
    engine.close()


def _answer(engine: Engine, asked: dict[str, Any]) -> object:
    if "reset" in asked:
        return engine.reset()
    if "forget" in asked:
        engine.forget()
        return True
    found = engine.run(*asked["prompts"], generate=asked["generate"])
    return [dataclasses.asdict(each) for each in found]


if __name__ == "__main__":
    main()
