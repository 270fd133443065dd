"""A vLLM server is killed, and the next one gets its KV cache back: `python -m examples.vllm_demo`.

Exit codes: 0 when every claim held, 1 when one did not or something broke, 2 when the model's
weights are missing.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.demo.daemon import DaemonBroken, DaemonProcess, wait_for
from examples.demo.report import Report
from examples.engine.package import WeightsMissing
from examples.vllm_demo.conversion import converted_model
from examples.vllm_demo.server import Answer, Server
from kvstow.client import KvstowError

ANSWER_TOKENS = 24
QUESTIONS = (
    "From which country do the colonies declare independence?",
    "What do the signers pledge to each other?",
    "Who is accused of having obstructed the administration of justice?",
)
_DOCUMENT = Path(__file__).parent.parent / "documents" / "declaration-of-independence.txt"


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.vllm_demo", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is cleaned up
    report = Report(Console(highlight=False, width=None if sys.stdout.isatty() else 110))
    try:
        with report.console.status("converting the weights, once"):
            model = converted_model()
        _run(model, report)
    except WeightsMissing as missing:
        report.console.print(str(missing), style="yellow", markup=False)
        return 2
    except (DaemonBroken, KvstowError, subprocess.CalledProcessError) as error:
        report.claim(f"the demo did not break off: {error}", False)
    if options.json is not None:
        claims = [{"claim": claim, "holds": holds} for claim, holds in report.claims]
        options.json.write_text(json.dumps({**report.figures, "claims": claims}, indent=2) + "\n")
    held = sum(holds for _, holds in report.claims)
    report.console.print(f"\n{held} of {len(report.claims)} claims held")
    return 0 if report.holds else 1


def _run(model: Path, report: Report) -> None:
    with ExitStack() as cleanup:
        directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="kvstow-demo-")))
        daemon = DaemonProcess(directory)
        cleanup.callback(daemon.stop)
        report.title(1, "kvstowd starts, then vllm serve with the connector")
        daemon.wait_ready()
        with _server(report, model, daemon, directory / "vllm-1.log") as first:
            report.title(2, "A long document, three questions")
            cold = _ask_all(report, first)
            report.claim("nothing was cached for the first question", not cold[0].cached_tokens)
            stored = _stored_blocks(daemon)
            report.claim(f"kvstowd has {stored} blocks", stored > 0)
            report.title(3, "SIGKILL: the server and its KV cache are gone")
            first.kill()
        with _server(report, model, daemon, directory / "vllm-2.log") as second:
            report.title(4, "A new server, the same document, the same questions")
            warm = _ask_all(report, second)
        _compare(report, cold, warm)


@contextmanager
def _server(report: Report, model: Path, daemon: DaemonProcess, log: Path) -> Iterator[Server]:
    """A server that takes questions."""
    server = Server(model, daemon.target, log)
    try:
        with report.console.status("vllm serve starts"):
            server.wait_ready()
        server.ask("", "Good morning.", 1)  # so that what a server does once is not measured
        yield server
    finally:
        server.stop()


def _ask_all(report: Report, server: Server) -> list[Answer]:
    answers = []
    for question in QUESTIONS:
        report.say(f"asked:   {question}")
        with report.console.status("vLLM reads"):
            answers.append(server.ask(_DOCUMENT.read_text(), question, ANSWER_TOKENS))
        report.say(f"answers: {' '.join(answers[-1].text.split())}")
    return answers


def _stored_blocks(daemon: DaemonProcess) -> int:
    """Blocks that the next server can get, once no copy is under way."""
    wait_for(lambda: not daemon.client.administration.transfers().total_count, "no copy runs")
    return sum(space.ready_count for space in daemon.client.administration.spaces())


def _compare(report: Report, cold: Sequence[Answer], warm: Sequence[Answer]) -> None:
    report.title(5, "What it was worth")
    table = Table("question", "prompt tokens", "from kvstow", "from vLLM", "first token after")
    for life, answers in (("first server", cold), ("second server", warm)):
        for number, answer in enumerate(answers, 1):
            table.add_row(
                f"{number}, {life}",
                str(answer.prompt_tokens),
                str(answer.external_tokens),
                str(answer.cached_tokens - answer.external_tokens),
                f"{answer.first_token_s:.2f} s",
            )
    report.console.print(table)
    before, after = cold[0], warm[0]
    report.claim(
        f"{after.external_tokens} of {after.prompt_tokens} tokens of the first question came from kvstow",
        after.external_tokens == after.cached_tokens > 0.9 * after.prompt_tokens,
    )
    ratio = before.first_token_s / after.first_token_s
    report.claim(f"the first token came {ratio:.1f} times sooner", ratio > 1)
    report.claim(
        "the answers are the same",
        [answer.text for answer in cold] == [answer.text for answer in warm],
    )
    report.figures.update(
        cold=[asdict(each) for each in cold], warm=[asdict(each) for each in warm]
    )


if __name__ == "__main__":
    sys.exit(main())
