"""Whether the daemon sees the GPUs of this side: engines on others are refused."""

import re
from collections.abc import Iterator

from .findings import Finding, failure, fine, warning
from .machine import Machine
from .scene import Scene

_MINOR = re.compile(r"^Device Minor:\s+(\d+)$", re.MULTILINE)
_UUID = re.compile(r"^GPU UUID:\s+GPU-([0-9a-fA-F-]{36})$", re.MULTILINE)


def gpus(machine: Machine) -> Iterator[str]:
    """UUIDs of the GPUs that this side sees, as the protocol writes them.

    The driver's files name every GPU of the host; where a container has only some, only those have a node in /dev. A GPU
    that is divided (NVIDIA's MIG user guide, "Device Nodes and Capabilities") is left out: programs see its instances,
    whose UUIDs stand in no file.
    """
    for name in machine.matching("/proc/driver/nvidia/gpus/*/information"):
        text = machine.text(name) or ""
        uuid, minor = _UUID.search(text), _MINOR.search(text)
        if uuid and minor and _is_whole(machine, minor[1]):
            yield uuid[1].lower()


def _is_whole(machine: Machine, minor: str) -> bool:
    instances = f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi*"
    return bool(machine.matching(f"/dev/nvidia{minor}")) and not machine.matching(instances)


def check_gpus(scene: Scene) -> Finding | None:
    """Whether every GPU of this side is one that the daemon sees, and is well."""
    ours = list(gpus(scene.machine))
    if scene.answer is None:
        return fine("gpus", f"{len(ours)} on this side") if ours else None
    info = scene.answer.info
    theirs = {gpu.uuid.lower(): gpu for gpu in info.gpus}
    if not ours and not theirs:
        return None
    found = f"{len(ours)} on this side, {len(theirs)} in the daemon"
    ill = [f"{gpu.uuid} ({gpu.name}): {gpu.trouble}" for gpu in theirs.values() if gpu.trouble]
    if ill:
        advice = "end the engines on it, reset or replace it, and start the daemon again"
        return failure("gpus", f"{found}; {'; '.join(ill)}", advice)
    unseen = [uuid for uuid in ours if uuid not in theirs]
    if not unseen:
        return fine("gpus", found)
    found = f"{found}; the daemon does not see {', '.join(unseen)}"
    if info.cuda_off:
        advice = "engines there are refused as CUDA_OFF: give the daemon CUDA (its log says what is missing)"
        return warning("gpus", f"{found}: {info.cuda_off}", advice)
    advice = "give the daemon all GPUs (NVIDIA_VISIBLE_DEVICES=all, no CUDA_VISIBLE_DEVICES)"
    return failure("gpus", found, advice)
