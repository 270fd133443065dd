"""Whether daemon and engines see each other's memory and processes, if this runs where the engine does."""

from . import kernel
from .findings import Finding, failure, fine, warning
from .scene import Scene

_SHARE_PID = (
    "let both share a PID namespace (docker: --pid; Kubernetes: shareProcessNamespace in one pod,"
    " hostPID between pods)"
)


def check_process(scene: Scene) -> Finding | None:
    """Whether the daemon's process can be seen from here."""
    peer = scene.socket.peer
    if peer is None:
        return None
    if peer.pid:
        return fine("process", f"the daemon is process {peer.pid} and runs as {peer.user}")
    found = (
        "the daemon's process is in a PID namespace that this one does not see: its limits, control"
        " group, pool and namespaces were not checked"
    )
    return warning("process", found, "run this once more where the daemon runs")


def check_pid_namespace(scene: Scene) -> Finding | None:
    """Engines elsewhere are not seen dying, and CUDA IPC handles do not pass between PID namespaces.

    The latter is a rule of CUDA's: https://github.com/openucx/ucx/pull/11514.
    """
    peer = scene.socket.peer
    if peer is None:
        return None
    ours = scene.machine.link("/proc/self/ns/pid")
    theirs = scene.machine.link(f"/proc/{peer.pid}/ns/pid") if peer.pid else "one out of sight"
    if theirs is None:
        return _unknown("pid-namespace", peer.user)
    if theirs == ours:
        return fine("pid-namespace", f"daemon and this side share {ours}")
    found = f"the daemon has {theirs}, this side {ours}"
    if scene.answer is not None and scene.answer.info.gpus:
        return failure(
            "pid-namespace", f"{found}: CUDA IPC does not pass between them", _SHARE_PID
        )
    late = "an engine's death is noticed by its connection only, not by its process"
    return warning("pid-namespace", f"{found}: {late}", _SHARE_PID)


def check_ipc_namespace(scene: Scene) -> Finding | None:
    """Whether both sides have one IPC namespace, and with it, in most container engines, one /dev/shm."""
    peer = scene.socket.peer
    if peer is None or not peer.pid:
        return None
    ours = scene.machine.link("/proc/self/ns/ipc")
    theirs = scene.machine.link(f"/proc/{peer.pid}/ns/ipc")
    if theirs is None:
        return _unknown("ipc-namespace", peer.user)
    if theirs == ours:
        return fine("ipc-namespace", f"daemon and this side share {ours}")
    advice = "let both share one (docker: --ipc; Kubernetes: one pod, or hostIPC)"
    return warning("ipc-namespace", f"the daemon has {theirs}, this side {ours}", advice)


def check_shared_mount(scene: Scene) -> Finding | None:
    """Whether both sides have the same /dev/shm: memory that an engine names there must be found by the daemon."""
    peer = scene.socket.peer
    if peer is None or not peer.pid:
        return None
    ours = kernel.shared_memory_mount(scene.machine, "self")
    theirs = kernel.shared_memory_mount(scene.machine, str(peer.pid))
    if ours is None or theirs is None:
        return None
    if theirs == ours:
        return fine("shared-mount", f"daemon and this side have the same /dev/shm ({ours})")
    found = f"the daemon's /dev/shm is another ({theirs}) than this side's ({ours})"
    advice = (
        "mount the same one in both (docker: --ipc; Kubernetes: an emptyDir with medium Memory on"
        " /dev/shm in both containers); until then engines on the CPU are refused as REGION_INVALID"
    )
    return failure("shared-mount", found, advice)


def _unknown(check: str, user: str) -> Finding:
    found = f"the daemon's cannot be read: its process runs as {user}"
    return warning(check, found, "run this as " + " or ".join(dict.fromkeys((user, "root"))))
