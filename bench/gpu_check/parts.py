"""What is done, in which order: the important things first."""

from kvstow.client import Budgets, Client

from . import checks, speed
from .engine import WAIT_S
from .gpu import Gpu, Served
from .plan import Plan
from .report import Report

PATIENT = Budgets(lookup_s=WAIT_S, transfer_s=WAIT_S, control_s=WAIT_S)
KERNEL = "kernel"


def run(plan: Plan, gpu: Gpu, served: Served, report: Report) -> None:
    """All parts, with copies by the copy engines."""
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
