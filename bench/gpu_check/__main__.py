"""`make gpu-check`: runs everything, prints a table last, writes JSON; exits with 1 if something is not as promised."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kvstow.client import Budgets, Client

from . import checks, speed
from .gpu import Gpu, Served
from .plan import DRY, KERNEL_ON_A_GPU, LATEST_BEGIN_S, LATEST_END_S, ON_A_GPU, Plan
from .report import Report

PATIENT = Budgets(lookup_s=10.0, transfer_s=10.0, control_s=30.0)
KERNEL = "kernel"


def run(plan: Plan, gpu: Gpu, served: Served, report: Report) -> None:
    """All parts, the important ones first."""
    with Client(served.target, PATIENT) as client:
        report.run("daemon", lambda: checks.check_pinned(client, report))
        checks.check_bytes(client, gpu, plan, report)
        report.run("copies", lambda: checks.check_method(served, "batches", report))
        speed.measure_rates(client, gpu, plan, report)
        report.run("fences", lambda: checks.check_fences(client, gpu, plan, report))
        report.run("latency", lambda: speed.measure_latency(client, gpu, plan, report))
        report.run("interference", lambda: speed.measure_interference(client, gpu, plan, report))
        report.run("suspension", lambda: checks.check_suspension(client, gpu, plan, report))
        report.run("death", lambda: checks.check_death(client, gpu, plan, served.target, report))


def run_kernel(plan: Plan, gpu: Gpu, served: Served, report: Report) -> None:
    """What a kernel in place of the copy engines may change."""
    with Client(served.target, PATIENT) as client, report.under(KERNEL):
        checks.check_bytes(client, gpu, plan, report)
        report.run("copies", lambda: checks.check_method(served, KERNEL, report))
        report.run("interference", lambda: speed.measure_interference(client, gpu, plan, report))
        speed.measure_rates(client, gpu, plan, report)
        report.run("latency", lambda: speed.measure_latency(client, gpu, plan, report))


def main(arguments: Sequence[str]) -> int:
    """Run the check; returns the exit code."""
    parser = argparse.ArgumentParser("gpu-check", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="over the model of the driver")
    parser.add_argument("--json", type=Path, default=Path("gpu-check.json"), help="where to")
    options = parser.parse_args(arguments)
    report = Report({}, LATEST_BEGIN_S, options.json)
    with report.ending_after(LATEST_END_S):
        report.run("everything", lambda: (dry_run if options.dry_run else on_a_gpu)(report))
    report.show()
    return 0 if report.passed else 1


def on_a_gpu(report: Report) -> None:
    """Run it on a GPU."""
    from .daemons import served_on_gpu
    from .torch_gpu import (
        TorchGpu,
    )  # only here: the other way has no need of torch, and this one none of the model

    gpu = TorchGpu()
    report.facts |= gpu.facts

    def serve() -> None:
        with served_on_gpu(ON_A_GPU, report) as served:
            run(ON_A_GPU, gpu, served, report)

    def serve_with_a_kernel() -> None:
        with served_on_gpu(KERNEL_ON_A_GPU, report, kernel=True) as served:
            run_kernel(KERNEL_ON_A_GPU, gpu, served, report)

    report.run("copy engines", serve)
    report.run("a kernel", serve_with_a_kernel)
    report.run("contract", lambda: checks.check_contract(report))


def dry_run(report: Report) -> None:
    """Run it over the model; what is timed there means nothing and is not held against a goal."""
    from .model import served_on_model

    with served_on_model(DRY) as (served, gpu):
        report.facts |= gpu.facts
        run(DRY, gpu, served, report)
    with served_on_model(DRY, kernel=True) as (served, gpu):
        run_kernel(DRY, gpu, served, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
