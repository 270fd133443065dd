"""The main job of kvstow, shown and checked in seven steps: `python -m examples.demo`.

Exit codes: 0 when every claim held, 1 when one did not or something broke, 2 when the model's
weights are missing.
"""

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.prompt import Confirm

from examples.demo.daemon import DaemonBroken, DaemonProcess
from examples.demo.engines import EngineBroken
from examples.demo.figures import show_metrics, show_summary
from examples.demo.report import Report
from examples.demo.resets import reset_in_flight
from examples.demo.stage import Stage
from examples.demo.story import kill_engine, read_cold, read_warm, share, start_daemon
from examples.engine.package import WeightsMissing, packaged_gguf
from kvstow.client import KvstowError


def main() -> int:
    """Run the demo as the command line says; return the exit code."""
    options = _parse_options()
    report = Report(_console())
    if not options.tiny and not _has_weights(report.console):
        if not _wants_tiny(report.console):
            return 2
        options.tiny = True
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is cleaned up
    broken = ""
    try:
        _run("tiny" if options.tiny else "smollm2", report)
    except KeyboardInterrupt:
        broken = "interrupted"
    except (DaemonBroken, EngineBroken, KvstowError) as error:
        broken = str(error)
    if options.json is not None:
        _write(options.json, report, broken)
    if broken:
        report.console.print(f"\nthe demo broke off: {broken}", style="bold red", markup=False)
    held = sum(holds for _, holds in report.claims)
    report.console.print(f"\n{held} of {len(report.claims)} claims held")
    return 0 if report.holds and not broken else 1


def _run(model: str, report: Report) -> None:
    with ExitStack() as cleanup:
        directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="kvstow-demo-"))
        daemon = DaemonProcess(Path(directory))
        cleanup.callback(daemon.stop)
        stage = Stage(report, daemon, model, cleanup)
        start_daemon(stage)
        cold = read_cold(stage)
        kill_engine(stage)
        read_warm(stage, cold)
        stored = share(stage)
        reset_in_flight(stage, stored)
        show_metrics(stage)
        show_summary(stage)
        _end(stage)


def _end(stage: Stage) -> None:
    """End engines and daemon as they should be ended, and look what they leave behind."""
    for engine in stage.engines.values():
        engine.close()
    stage.report.claim("kvstowd drained and ended with exit code 0", stage.daemon.stop() == 0)
    left = [path for path in stage.memories if path.exists()]
    stage.report.claim("no shared memory is left behind", not left)


def _console() -> Console:
    """One that does not break lines at 80 where no terminal says how wide it is."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=110)


def _has_weights(console: Console) -> bool:
    try:
        packaged_gguf()
    except WeightsMissing as missing:
        console.print(f"[yellow]{missing}[/]")
        return False
    return True


def _wants_tiny(console: Console) -> bool:
    """Offer the same on a model without sense; without a person, say what to type."""
    if not sys.stdin.isatty():
        console.print("To see the same on a tiny random model, type:")
        console.print(f"{sys.executable} -m examples.demo --tiny", soft_wrap=True)
        return False
    return Confirm.ask("Run the same on a tiny random model?", console=console, default=True)


def _write(path: Path, report: Report, broken: str) -> None:
    claims = [{"claim": claim, "holds": holds} for claim, holds in report.claims]
    figures = {**report.figures, "claims": claims, "broken": broken}
    path.write_text(json.dumps(figures, indent=2) + "\n")


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="run on a tiny random model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
