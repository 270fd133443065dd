"""What is said of namespaces, GPUs and transfers, on machines that are described."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli.doctor.scenes import DAEMON, SHARED, machine, scene
from cli.doctor.test_memory import FAILURE, OK, WARNING, assert_found
from kvstow.cli.doctor import devices, isolation, reach
from kvstow.cli.doctor.findings import Level
from kvstow.v1 import admin_pb2, cache_pb2

UUID = "01234567-89ab-cdef-0123-456789abcdef"
GPU = "/proc/driver/nvidia/gpus/0000:01:00.0/information"
INFORMATION = (
    "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-01234567-89AB-cdef-0123-456789abcdef\n"
    "Device Minor: \t 3\n"
)


def namespaces(kind: str, ours: int, theirs: int) -> dict[str, str]:
    return {
        f"/proc/self/ns/{kind}": f"{kind}:[{ours}]",
        f"/proc/{DAEMON}/ns/{kind}": f"{kind}:[{theirs}]",
    }


def test_who_the_daemon_is(tmp_path: Path) -> None:
    assert_found(isolation.check_process(scene(machine(tmp_path, {}))), OK, "process 77")
    assert_found(isolation.check_process(scene(machine(tmp_path, {}), pid=0)), WARNING)
    assert isolation.check_process(scene(machine(tmp_path, {}), pid=None)) is None


@pytest.mark.parametrize(
    ("theirs", "with_gpu", "level"),
    [(1, False, OK), (1, True, OK), (2, False, WARNING), (2, True, FAILURE)],
)
def test_handles_of_gpu_memory_need_one_pid_namespace(
    tmp_path: Path, theirs: int, with_gpu: bool, level: Level
) -> None:
    gpus = [cache_pb2.Gpu(uuid="u")] if with_gpu else []
    found = scene(machine(tmp_path, {}, namespaces("pid", 1, theirs)), gpus=gpus)
    assert_found(isolation.check_pid_namespace(found), level, "pid:[1]")


def test_a_pid_namespace_out_of_sight_is_another(tmp_path: Path) -> None:
    found = scene(machine(tmp_path, {}, namespaces("pid", 1, 1)), pid=0)
    assert_found(isolation.check_pid_namespace(found), WARNING, "out of sight")


@pytest.mark.parametrize(("theirs", "level"), [(1, OK), (2, WARNING)])
def test_ipc_namespaces_are_compared(tmp_path: Path, theirs: int, level: Level) -> None:
    found = scene(machine(tmp_path, {}, namespaces("ipc", 1, theirs)))
    assert_found(isolation.check_ipc_namespace(found), level, f"ipc:[{theirs}]")


def test_namespaces_of_another_user_are_said_to_be_hidden(tmp_path: Path) -> None:
    ours = {f"/proc/self/ns/{kind}": f"{kind}:[1]" for kind in ("pid", "ipc")}
    found = scene(machine(tmp_path, {}, ours))
    for check in (isolation.check_pid_namespace, isolation.check_ipc_namespace):
        assert_found(check(found), WARNING, "runs as owner")


@pytest.mark.parametrize(
    ("user", "advice"), [("owner", "run this as owner or root"), ("root", "run this as root")]
)
def test_who_could_see_the_namespaces_is_named_once(
    tmp_path: Path, user: str, advice: str
) -> None:
    found = scene(machine(tmp_path, {}, {"/proc/self/ns/pid": "pid:[1]"}))
    assert found.socket.peer is not None
    peer = replace(found.socket.peer, user=user)
    finding = isolation.check_pid_namespace(
        replace(found, socket=replace(found.socket, peer=peer))
    )
    assert finding is not None
    assert finding.advice == advice


@pytest.mark.parametrize(
    ("theirs", "level"),
    [
        (SHARED, OK),
        (SHARED.replace("0:27", "0:99"), FAILURE),
        (SHARED.replace("0:27 /", "0:27 /volume"), FAILURE),
        (SHARED + SHARED.replace("0:27", "0:99"), FAILURE),  # the later mount covers the other
    ],
)
def test_both_sides_have_the_same_shared_memory(tmp_path: Path, theirs: str, level: Level) -> None:
    files = {"/proc/self/mountinfo": SHARED, f"/proc/{DAEMON}/mountinfo": theirs}
    assert_found(isolation.check_shared_mount(scene(machine(tmp_path, files))), level, "0:27 /")


@pytest.mark.parametrize(
    ("theirs", "off", "level", "phrase"),
    [
        ([cache_pb2.Gpu(uuid=UUID)], "", OK, "1 on this side, 1 in the daemon"),
        ([cache_pb2.Gpu(uuid="other")], "", FAILURE, f"does not see {UUID}"),
        ([], "no cupy", WARNING, "no cupy"),
        ([cache_pb2.Gpu(uuid=UUID, name="H200", trouble="it hangs")], "", FAILURE, "it hangs"),
    ],
)
def test_the_daemon_sees_the_gpus_of_this_side(
    tmp_path: Path, theirs: list[cache_pb2.Gpu], off: str, level: Level, phrase: str
) -> None:
    found = machine(tmp_path, {GPU: INFORMATION, "/dev/nvidia3": ""})
    assert_found(devices.check_gpus(scene(found, gpus=theirs, cuda_off=off)), level, phrase)


def test_a_gpu_that_this_side_may_not_open_is_none_of_its(tmp_path: Path) -> None:
    found = machine(tmp_path, {GPU: INFORMATION, "/dev/nvidia0": ""})
    assert list(devices.gpus(found)) == []
    assert devices.check_gpus(scene(found)) is None


def test_a_gpu_that_is_divided_is_not_compared(tmp_path: Path) -> None:
    instance = "/proc/driver/nvidia/capabilities/gpu3/mig/gi1/access"
    found = machine(tmp_path, {GPU: INFORMATION, "/dev/nvidia3": "", instance: ""})
    theirs = [cache_pb2.Gpu(uuid="an-instance")]
    assert_found(devices.check_gpus(scene(found, gpus=theirs)), OK, "0 on this side, 1 in the")


def test_transfers_of_others_are_counted_and_not_shown(tmp_path: Path) -> None:
    found = scene(machine(tmp_path, {}))
    assert found.answer is not None
    others = replace(found.answer, overdue=admin_pb2.ListTransfersResponse(total_count=2))
    finding = reach.check_transfers(replace(found, answer=others))
    assert finding is not None
    assert (finding.level, finding.found) == (FAILURE, "2 are past their deadline")
