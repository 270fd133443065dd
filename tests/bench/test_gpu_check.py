"""The check that needs a GPU is sound: its whole plan runs over the model, and its kernels do what they say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.gpu_check.__main__ import main
from bench.gpu_check.daemons import served_on_gpu
from bench.gpu_check.plan import ON_A_GPU
from bench.gpu_check.report import FAILED, OK, Report
from bench.gpu_check.torch_gpu import TorchBuffer
from device.stub import compiled, library
from kvstow.client import Client


def test_the_plan_runs_over_the_model_and_finds_what_it_should(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dry-run", "--json", str(tmp_path / "out.json")]) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    verdicts = {row["part"]: row["verdict"] for row in written["rows"] if row["verdict"]}
    assert verdicts == dict.fromkeys(("daemon", "bytes", "fences", "suspension", "death"), OK)
    (without,) = [row for row in written["rows"] if row["what"].startswith("without")]
    assert "0 stores and 0 loads" not in without["result"]
    assert capsys.readouterr().out.endswith("everything is as promised\n")


@compiled
def test_the_daemon_starts_with_a_driver_unpinned_and_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(library("13"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    report = Report({}, limit_s=60.0)
    with (
        served_on_gpu(replace(ON_A_GPU, pool_bytes=64 << 20), report) as target,
        Client(target) as client,
    ):
        info = client.server_info()
        assert info.pinned
        assert len(info.gpus) == 2
    assert report.numbers.keys() >= {"start", "start unpinned"}


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
