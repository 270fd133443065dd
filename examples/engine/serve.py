"""Runs one engine as a process that is spoken to in JSON lines: `python -m examples.engine.serve`.

It says `ready` first, then answers each line of standard input, and ends when that is closed:

    {"do": "answer", "document": …, "question": …, "max_new_tokens": …, "salt": …}
                        {"event": "progress", …} as often as needed, then {"event": "answer", …}
    {"do": "count", "document": …, "question": …, "salt": …}    {"event": "count", …}
    {"do": "drain", "timeout_s": …}                             {"event": "drained", …}
    {"do": "reset"}                                             {"event": "reset"}
    {"do": "report"}                                            {"event": "report", …}

Anything that cannot be done is an {"event": "error", …}. Log lines go to standard error.
"""

import argparse
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from examples.engine.blocks import OutOfBlocks
from examples.engine.engine import COPY_BUDGET_S, Engine
from examples.engine.memory import KvLayout, KvMemory
from examples.engine.models import ModelName, open_model
from examples.engine.package import WeightsMissing
from examples.engine.request import Request, TooLong
from examples.engine.stow import BUDGET_S, StowCache, budgets, open_session
from examples.engine.text import ChatTokenizer
from kvstow.client import Callbacks, Client, KvstowError, Session

CACHE_BYTES = 192 << 20


def main() -> int:
    """Serve until standard input ends; return the exit code."""
    options = _parse_options()
    logging.basicConfig(format=f"{options.name}: %(message)s")
    with ExitStack() as stack:
        try:
            server = _start(options, stack)
        except (WeightsMissing, KvstowError, OSError) as error:
            _say("error", message=str(error))
            return 1
        for line in sys.stdin:
            server.obey(json.loads(line))
    return 0


def _start(options: argparse.Namespace, stack: ExitStack) -> "Server":
    weights, tokenizer = open_model(
        options.model, lambda done, total: _say("unpacking", done=done, total=total)
    )
    block_count = CACHE_BYTES // KvLayout.for_model(weights.architecture, 1).size_bytes
    memory = KvMemory(KvLayout.for_model(weights.architecture, block_count))
    stack.callback(memory.close)
    client = Client(options.daemon, budgets(options.budget))
    stack.callback(client.close)
    events: Counter[str] = Counter()
    callbacks = Callbacks(on_event=lambda event: events.update([type(event).__name__]))
    session = open_session(client, weights, memory, options.name, callbacks)
    stack.callback(session.close)
    engine = Engine(
        weights, memory, StowCache(session), copy_budget_s=max(options.budget, COPY_BUDGET_S)
    )
    engine.warm_up()
    _say(
        "ready",
        model=weights.name,
        session=session.ticket.session_id if session.ticket else None,
        memory=str(memory.shared.path),
        block_bytes=memory.layout.layer_count * memory.layout.piece_bytes,
    )
    return Server(engine, tokenizer, session, events)


class Server:
    """Does what the lines say.

    Args:
        engine: What answers.
        tokenizer: Of its model.
        session: At the daemon.
        events: How often the session heard each kind of event; another thread counts.
    """

    def __init__(
        self, engine: Engine, tokenizer: ChatTokenizer, session: Session, events: Counter[str]
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._session = session
        self._events = events

    def obey(self, line: Mapping[str, Any]) -> None:
        """Do one thing and say what came of it."""
        match line["do"]:
            case "answer":
                self._answer(line)
            case "count":
                local, external = self._engine.count(self._prompt(line), line["salt"].encode())
                _say("count", local_blocks=local, external_blocks=external)
            case "drain":
                _say("drained", all_ended=self._engine.drain(line["timeout_s"]))
            case "reset":
                self._engine.reset()
                _say("reset")
            case "report":
                self._report()
            case unknown:
                _say("error", message=f"there is no {unknown!r}")

    def _answer(self, line: Mapping[str, Any]) -> None:
        prompt = self._prompt(line)
        request = Request(
            prompt=prompt,
            max_new_tokens=line["max_new_tokens"],
            end_token=self._tokenizer.end_token,
            salt=line["salt"].encode(),
        )
        try:
            answer = self._engine.generate(
                request,
                on_prefill=lambda done: _say("progress", done=done, total=len(prompt)),
            )
        except (TooLong, OutOfBlocks) as error:
            _say("error", message=str(error))
            return
        text = self._tokenizer.decode(answer.tokens)
        _say("answer", text=text, prompt_tokens=len(prompt), **asdict(answer))

    def _report(self) -> None:
        counters = self._session.counters()
        _say(
            "report",
            stores=counters.stores,
            loads=counters.loads,
            ended={state.value: count for state, count in counters.ended.items()},
            ignored_reports=counters.ignored_reports,
            unfinished=counters.unfinished,
            events=dict(self._events),
        )

    def _prompt(self, line: Mapping[str, Any]) -> list[int]:
        return self._tokenizer.ask(line["question"], line["document"])


def _say(event: str, **facts: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.engine.serve", description=__doc__)
    parser.add_argument("--model", type=ModelName, default=ModelName.SMOLLM2)
    parser.add_argument("--daemon", default="", help="unix:/path/of/the/socket or host:port")
    parser.add_argument("--name", default=f"engine-{os.getpid()}", help="for people")
    parser.add_argument(
        "--budget", type=float, default=BUDGET_S, help="seconds that an answer is waited for"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
