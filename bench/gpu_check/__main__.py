"""`make gpu-check`: runs everything, prints a table last, writes JSON; exits with 1 if something is not as promised."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kvstow.client import Budgets, Client

from . import checks, speed
from .daemons import served_on_gpu
from .gpu import Gpu
from .plan import DRY, ON_A_GPU, Plan
from .report import Report

PATIENT = Budgets(lookup_s=10.0, transfer_s=10.0, control_s=30.0)


def run(plan: Plan, gpu: Gpu, target: str, report: Report) -> None:
    """All parts, the important ones first."""
    with Client(target, PATIENT) as client:
        report.run("daemon", lambda: checks.check_pinned(client, report))
        report.run("bytes", lambda: checks.check_bytes(client, gpu, plan, report))
        report.run("rate", lambda: speed.measure_rates(client, gpu, plan, report))
        report.run("fences", lambda: checks.check_fences(client, gpu, plan, report))
        report.run("latency", lambda: speed.measure_latency(client, gpu, plan, report))
        report.run("suspension", lambda: checks.check_suspension(client, gpu, plan, report))
        report.run("death", lambda: checks.check_death(client, gpu, plan, target, report))
        report.run("interference", lambda: speed.measure_interference(client, gpu, plan, report))


def main(arguments: Sequence[str]) -> int:
    """Run the check; returns the exit code."""
    parser = argparse.ArgumentParser("gpu-check", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="over the model of the driver")
    parser.add_argument("--json", type=Path, default=Path("gpu-check.json"), help="where to")
    options = parser.parse_args(arguments)
    report = dry_run() if options.dry_run else on_a_gpu()
    report.write(options.json)
    report.show()
    return 0 if report.passed else 1


def on_a_gpu() -> Report:
    """Run it on a GPU."""
    from .torch_gpu import (
        TorchGpu,
    )  # only here: the other way has no need of torch, and this one none of the model

    gpu = TorchGpu()
    report = Report(gpu.facts, ON_A_GPU.limit_s)

    def serve() -> None:
        with served_on_gpu(ON_A_GPU, report) as target:
            run(ON_A_GPU, gpu, target, report)

    report.run("everything", serve)
    report.run("contract", lambda: checks.check_contract(report))
    return report


def dry_run() -> Report:
    """Run it over the model; what is timed there means nothing and is not held against a goal."""
    from .model import served_on_model

    with served_on_model(DRY) as (target, gpu):
        report = Report(gpu.facts, DRY.limit_s)
        run(DRY, gpu, target, report)
    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
