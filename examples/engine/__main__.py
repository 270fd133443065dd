"""Runs the engine alone: `python -m examples.engine --question "Who signed it?"`.

It reads a document and answers a question about it, several times over, and prints how long the
first token took and how much of the prompt was cached. There is no external cache here.
"""

import argparse
import sys
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from examples.engine.engine import Engine
from examples.engine.memory import KvLayout, KvMemory
from examples.engine.models import ModelName, open_model
from examples.engine.package import WeightsMissing
from examples.engine.prefix import blocks_for
from examples.engine.request import Answer, Request
from examples.engine.text import ChatTokenizer
from examples.engine.weights import Weights

DECLARATION = Path(__file__).parent.parent / "documents" / "declaration-of-independence.txt"


def main() -> int:
    """Answer the question as often as the command line says; return the exit code."""
    options = _parse_options()
    console = Console()
    try:
        weights, tokenizer = _open_model(options.model, console)
    except WeightsMissing as missing:
        console.print(f"{missing}\nor run the tiny random model: --model tiny", style="red")
        return 1
    prompt = tokenizer.ask(options.question, options.document.read_text())
    request = Request(
        prompt=prompt,
        max_new_tokens=options.max_new_tokens,
        end_token=tokenizer.end_token,
        salt=options.salt.encode(),
    )
    block_count = blocks_for(len(prompt) + options.max_new_tokens)
    layout = KvLayout.for_model(weights.architecture, block_count)
    with closing(KvMemory(layout)) as memory:
        engine = Engine(weights, memory)
        for _ in range(options.times):
            answer = _generate(engine, request, console)
            console.print(f"\n{tokenizer.decode(answer.tokens)}", markup=False, highlight=False)
            console.print(
                f"prompt {len(prompt)} tokens, {answer.local_tokens} of them cached; "
                f"first token after {answer.first_token_s:.2f} s, "
                f"{len(answer.tokens)} tokens after {answer.total_s:.2f} s",
                style="dim",
            )
    return 0


def _open_model(name: ModelName, console: Console) -> tuple[Weights, ChatTokenizer]:
    with Progress(console=console, transient=True) as bars:
        bar = bars.add_task("unpacking the model, once", visible=False)
        return open_model(
            name,
            lambda done, total: bars.update(bar, completed=done, total=total, visible=True),
        )


def _generate(engine: Engine, request: Request, console: Console) -> Answer:
    with Progress(console=console, transient=True) as bars:
        bar = bars.add_task("reading the prompt", total=len(request.prompt))
        return engine.generate(request, on_prefill=lambda done: bars.update(bar, completed=done))


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.engine", description=__doc__)
    parser.add_argument("--question", default="Who is accused of tyranny in this document?")
    parser.add_argument("--document", type=Path, default=DECLARATION)
    parser.add_argument("--model", type=ModelName, default=ModelName.SMOLLM2)
    parser.add_argument("--max-new-tokens", type=int, default=48)
    parser.add_argument("--salt", default="", help="prompts with different salts share nothing")
    parser.add_argument("--times", type=int, default=2, help="how often to answer")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
