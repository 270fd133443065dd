"""Versions, clocks, and open files."""

from importlib.metadata import version

from kvstow.cli.runtime import unmet
from kvstow.cli.words import duration

from . import kernel
from .findings import Finding, failure, fine, warning
from .scene import Scene

LEAD_S = 1.0
"""By how much clocks may differ before logs of both sides are hard to compare."""

FEW_FILES = 4096
"""Fewer open files may not do: each engine and each of its ranks takes a connection and a process descriptor."""


def check_versions(scene: Scene) -> Finding:
    """Whether client and daemon are of one release."""
    ours = version("kvstow")
    if scene.answer is None:
        return fine("versions", f"kvstow {ours} on this side")
    theirs = scene.answer.info.version
    if theirs == ours:
        return fine("versions", f"kvstow {ours} on both sides")
    found = f"kvstow {ours} on this side, {theirs} in the daemon"
    return warning("versions", found, "install the same version on both sides")


def check_libraries(scene: Scene) -> Finding:
    """Whether gRPC and protobuf are what the generated code needs."""
    found = f"grpcio {version('grpcio')}, protobuf {version('protobuf')}"
    missing = unmet(version)
    if missing:
        return failure("libraries", f"{found}; {missing}", "pip install --upgrade kvstow")
    return fine("libraries", found)


def check_clock(scene: Scene) -> Finding | None:
    """Whether both sides have the same time, for their logs; nothing in the protocol depends on it."""
    if scene.answer is None:
        return None
    lead, error = scene.answer.clock_lead_s, scene.answer.clock_error_s
    way = "ahead of" if lead > 0 else "behind"
    found = f"the daemon's clock is {duration(abs(lead))} {way} this side's, give or take {duration(error)}"
    if abs(lead) - error <= LEAD_S:
        return fine("clock", found)
    return warning("clock", found, "set both clocks (chronyc tracking); logs are hard to compare")


def check_open_files(scene: Scene) -> Finding | None:
    """Whether the daemon may open what its engines need."""
    process = scene.process
    if process is None:
        return None
    limit = kernel.process_limit(scene.machine, process, "Max open files")
    if limit is None:
        return None
    if limit >= kernel.UNLIMITED:
        return fine("open-files", "any number")
    used = scene.machine.entry_count(f"/proc/{process}/fd")
    found = f"{'?' if used is None else used} of {limit}"
    advice = "raise the hard limit (LimitNOFILE= in systemd, --ulimit nofile= in docker): the daemon takes it"
    if used is not None and used > 0.9 * limit:
        return failure("open-files", f"{found} are in use", advice)
    if limit < FEW_FILES:
        return warning("open-files", f"{found}: too few for many engines", advice)
    return fine("open-files", found)
