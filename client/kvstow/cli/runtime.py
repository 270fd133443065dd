"""What the generated code needs of gRPC and protobuf.

It refuses an older runtime as soon as it is imported, with a traceback: so the command line asks here first, and this
module imports neither.
"""

import re
from collections.abc import Callable
from importlib.metadata import requires

NEEDED = ("grpcio", "protobuf")
_REQUIREMENT = re.compile(r"([A-Za-z-]+)>=([\d.]+)")


def unmet(installed: Callable[[str], str]) -> str:
    """What is older than the generated code needs, in words; empty if nothing is.

    Args:
        installed: the version of a distribution that is installed.
    """
    complaints = []
    for requirement in requires("kvstow") or ():
        found = _REQUIREMENT.fullmatch(requirement)
        if found and found[1] in NEEDED and _parts(installed(found[1])) < _parts(found[2]):
            complaints.append(f"{found[1]} {installed(found[1])} is older than {found[2]}")
    return ", ".join(complaints)


def _parts(version: str) -> list[int]:
    """The leading numbers of a version: enough to tell whether it is older than one without further words."""
    return [int(part) for part in re.findall(r"\d+", version)[:3]]
