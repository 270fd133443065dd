"""The check that needs a GPU is sound: its whole plan runs over the model, and its kernels do what they say."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.gpu_check.__main__ import main
from bench.gpu_check.checks import check_fences
from bench.gpu_check.daemons import served_on_gpu
from bench.gpu_check.model import ModelGpu, served_on_model
from bench.gpu_check.parts import PATIENT
from bench.gpu_check.plan import DRY, ON_A_GPU
from bench.gpu_check.report import FAILED, OK, Report
from bench.gpu_check.speed import measure_rates
from bench.gpu_check.torch_gpu import TorchBuffer
from device.stub import compiled, library
from kvstow.client import Client
from kvstow.server.device.cuda.batches import Batch
from kvstow.server.device.cuda.context import PROBE_BYTES
from kvstow.server.device.cuda.fences import WaitingRoom
from support.driver_model import DriverModel
from support.waiting import DEADLINE_S, wait_for

ROOT = Path(__file__).resolve().parents[2]


def test_the_plan_runs_over_the_model_and_finds_what_it_should(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dry-run", "--json", str(tmp_path / "out.json")]) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    verdicts = {row["part"]: row["verdict"] for row in written["rows"] if row["verdict"]}
    parts = ("protobuf", "daemon", "bytes", "copies", "fences", "suspension", "death")
    assert verdicts == dict.fromkeys((*parts, "kernel: bytes", "kernel: copies"), OK)
    for way in ("", "kernel: "):
        for number in ("store 64 KiB", "both 4 KiB", "product under copies ms", "latency median"):
            assert written["numbers"][way + number] > 0
    assert "gpu" in written["facts"]
    (without,) = [row for row in written["rows"] if row["what"].startswith("without")]
    assert "0 stores and 0 loads" not in without["result"]
    assert capsys.readouterr().out.endswith("everything is as promised\n")


HANGS = """
import subprocess, sys, time
from pathlib import Path
from bench.gpu_check import report as reporting
from bench.gpu_check.report import OK, Report

reporting.LAST_RESORT_S = 60.0  # last words take their time on a busy machine
report = Report({"gpu": "none"}, 60.0, Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
report.run("first", lambda: report.add("first", "it", "was done", OK))
with report.ending_after(0.5):
    report.run("second", lambda: time.sleep(600))
"""


def test_what_hangs_is_said_and_written_and_what_was_started_is_ended(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, "-c", HANGS, str(out)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert done.returncode == 1
    rows = json.loads(out.read_text())["rows"]
    assert [(row["part"], row["verdict"]) for row in rows] == [("first", OK), ("second", FAILED)]
    lines = done.stdout.splitlines()
    assert lines[-1] == "NOT everything is as promised"
    assert lines[-2].startswith("second  hangs")
    wait_for(lambda: not is_sleeping(lines[0]), "the end of what was started")


def is_sleeping(pid: str) -> bool:
    """Whether this is the process that was started, and has not ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b"\0".join([b"sleep", b"600", b""])
    except OSError:
        return False


@pytest.mark.parametrize("package", ["grpc", "google.protobuf", "torch"])
def test_a_package_that_cannot_be_imported_is_said_in_the_table(
    tmp_path: Path, package: str
) -> None:
    broken = tmp_path.joinpath(*package.split("."))
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('it is none for this machine')")
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu_check", "--json", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 1
    assert done.stdout.endswith("NOT everything is as promised\n")
    (row,) = [row for row in json.loads(out.read_text())["rows"] if row["verdict"] == FAILED]
    assert "it is none for this machine" in row["result"]


def test_what_is_there_is_written_after_each_part(tmp_path: Path) -> None:
    report = Report({}, 60.0, tmp_path / "out.json")
    report.run("one", lambda: report.add("one", "it", "was done", OK))
    assert json.loads((tmp_path / "out.json").read_text())["rows"][0]["part"] == "one"


def test_what_is_timed_are_pieces_of_the_size_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neighbours on both sides would be copied as one."""
    sizes: Counter[int] = Counter()
    copy_batch = DriverModel.copy_batch

    def counted(driver: DriverModel, batch: Batch, stream: int) -> None:
        sizes.update(batch.size.tolist())
        copy_batch(driver, batch, stream)

    monkeypatch.setattr(DriverModel, "copy_batch", counted)
    monkeypatch.setattr("support.machines.CHUNK_BYTES", 1 << 20)  # nothing else cuts them
    plan = replace(DRY, rate_pieces=(4096,), most_blocks=64)
    with served_on_model(plan) as (served, gpu), Client(served.target, PATIENT) as client:
        measure_rates(client, gpu, plan, Report({}, 60.0))
    del sizes[PROBE_BYTES]
    assert sizes[4096] > 0.9 * sizes.total()


def done_at_once(gpu: ModelGpu) -> Callable[..., None]:
    """A way to launch kernels that no copy can overtake."""
    launch = gpu.process.launch

    def launch_and_wait(*arguments: Any, **options: Any) -> None:
        launch(*arguments, **options)
        gpu.synchronize()

    return launch_and_wait


def fence_verdicts(gpu: ModelGpu, target: str) -> list[str]:
    report = Report({}, 60.0)
    with Client(target, PATIENT) as client:
        check_fences(client, gpu, DRY, report)
    return [row.verdict for row in report.rows]


def test_fences_that_do_not_hold_and_a_check_that_cannot_fail_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served_on_model(DRY) as (served, gpu):
        assert fence_verdicts(gpu, served.target) == [OK, OK]
        monkeypatch.setattr(WaitingRoom, "enter", lambda room, copy, event: room._pass_on(copy))
        assert fence_verdicts(gpu, served.target) == [FAILED, OK]
        monkeypatch.undo()
        monkeypatch.setattr(gpu.process, "launch", done_at_once(gpu))
        assert fence_verdicts(gpu, served.target) == [OK, FAILED]


class BreaksAtSome(ModelGpu):
    """Cannot copy blocks of 4 KiB."""

    def swap_rate(self, piece_bytes: int, count: int) -> float:
        if piece_bytes == 4096:
            raise RuntimeError("CUDA error: out of memory")
        return super().swap_rate(piece_bytes, count)


def test_a_step_that_breaks_loses_no_other(tmp_path: Path) -> None:
    report = Report({}, 60.0)
    with served_on_model(DRY) as (served, gpu), Client(served.target, PATIENT) as client:
        measure_rates(client, BreaksAtSome(gpu.world), DRY, report)
    broken = [row for row in report.rows if row.verdict == FAILED]
    assert [(row.part, row.result) for row in broken] == [
        ("rate 4 KiB", "RuntimeError: CUDA error: out of memory")
    ]
    assert report.numbers["store 64 KiB"] > 0


@compiled
@pytest.mark.parametrize("kernel", [False, True])
def test_the_daemon_starts_with_a_driver_unpinned_and_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(library("13"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    report = Report({}, limit_s=60.0)
    with (
        served_on_gpu(replace(ON_A_GPU, pool_bytes=64 << 20), report, kernel=kernel) as served,
        Client(served.target, PATIENT) as client,
    ):
        info = client.server_info()
        assert info.pinned
        assert len(info.gpus) == 2
        assert served.methods() == [], "no GPU is in use"
    assert report.numbers.keys() == (set() if kernel else {"start", "start unpinned", "end"})


def test_what_breaks_keeps_nothing_else_from_being_done_and_is_not_passed() -> None:
    report = Report({}, limit_s=60.0)
    report.run("one", lambda: 1 // 0)  # type: ignore[arg-type]
    report.run("two", lambda: report.add("two", "it", "was done", OK))
    assert [row.verdict for row in report.rows] == [FAILED, OK]
    assert not report.passed
    late = Report({}, limit_s=-1.0)
    late.run("late", lambda: None)
    assert not late.passed


@pytest.mark.parametrize("blocks", [[3], [1, 2, 3], [7, 2, 5]])
def test_the_kernels_tell_right_from_wrong(blocks: list[int]) -> None:
    buffer = TorchBuffer(4096, 8, "cpu")
    buffer.fill(blocks, 11)
    assert buffer.wrong(blocks, 11) == 0
    assert buffer.wrong(blocks, 12) == len(blocks)
    assert buffer.snapshot(blocks[-1])(11 + len(blocks) - 1)
    buffer.fill([blocks[0]], -5)
    assert buffer.wrong(blocks, 11) == 1
