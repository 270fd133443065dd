"""`make gpu-check`: runs everything, prints a table last, writes JSON; exits with 1 if something is not as promised.

What needs a package is imported when it is run: that one cannot be imported is a result too, such as generated code that the
protobuf of the machine does not take.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .plan import DRY, KERNEL_ON_A_GPU, LATEST_BEGIN_S, LATEST_END_S, ON_A_GPU
from .report import Report


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
    from . import checks, parts
    from .daemons import served_on_gpu
    from .torch_gpu import TorchGpu

    report.run("protobuf", lambda: checks.check_protobuf(report))
    gpu = TorchGpu()
    report.facts |= gpu.facts

    def serve() -> None:
        with served_on_gpu(ON_A_GPU, report) as served:
            parts.run(ON_A_GPU, gpu, served, report)

    def serve_with_a_kernel() -> None:
        with served_on_gpu(KERNEL_ON_A_GPU, report, kernel=True) as served:
            parts.run_kernel(KERNEL_ON_A_GPU, gpu, served, report)

    report.run("copy engines", serve)
    report.run("a kernel", serve_with_a_kernel)
    report.run("contract", lambda: checks.check_contract(report))


def dry_run(report: Report) -> None:
    """Run it over the model; what is timed there means nothing and is not held against a goal."""
    from . import checks, parts
    from .model import served_on_model

    report.run("protobuf", lambda: checks.check_protobuf(report))
    with served_on_model(DRY) as (served, gpu):
        report.facts |= gpu.facts
        parts.run(DRY, gpu, served, report)
    with served_on_model(DRY, kernel=True) as (served, gpu):
        parts.run_kernel(DRY, gpu, served, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
