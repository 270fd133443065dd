"""The one table of commands in the documentation that are not run by the tests of this folder, and why.

A block of commands that is neither run here nor listed fails a test; so does an entry that no block has any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from docs.pages import Block


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Blocks that are not run here.

    Args:
        page: where they stand.
        begins: what their first line begins with.
        because: why they are not run here.
        run_by: the test that reads the page and runs them, if there is one.
        shown_by: what does the same without reading the page, if there is something.
    """

    page: str
    begins: str
    because: str
    run_by: str = ""
    shown_by: str = ""

    def covers(self, block: Block) -> bool:
        """Whether the entry is about this block."""
        return block.page == self.page and block.first_line.startswith(self.begins)


FETCHES = "fetches packages into the checkout, in minutes"
ROOT = "root, and a machine to be changed"
CLUSTER = "a cluster"
GPU = "a GPU"

TABLE: Sequence[Elsewhere] = (
    # What sets itself up; every target that CI runs does that first.
    Elsewhere("README.md", "make demo", FETCHES, shown_by="tests/examples/test_demo.py"),
    Elsewhere("docs/quickstart.md", "make setup", FETCHES),
    Elsewhere("docs/quickstart.md", "make prometheus", FETCHES),
    Elsewhere("docs/quickstart.md", "docker compose", "a registry of images", shown_by="tests/deploy/test_compose.py"),
    Elsewhere("README.md", ".venv/bin/kvstowd", "8 GiB; the quick start does the same with less", shown_by="tests/docs/test_quickstart.py"),
    # Pages that have tests of their own.
    Elsewhere("docs/cli.md", "$ kvstow ", "a daemon with an engine whose store hangs", "tests/cli/test_document.py"),
    Elsewhere("docs/security.md", "head -c 32", "compared with the daemon's own reading", "tests/security/test_documentation.py"),
    Elsewhere("docs/replay.md", "kvstow replay", "a trace", shown_by="tests/replay/test_command.py"),
    Elsewhere("docs/deploy/kubernetes.md", "kubectl kustomize", "an overlay", "tests/deploy/test_pages.py"),
    Elsewhere("docs/deploy/kubernetes.md", "kubectl label", CLUSTER),
    Elsewhere("docs/deploy/containers.md", "docker compose", "a registry of images", shown_by="tests/deploy/test_compose.py"),
    Elsewhere("docs/deploy/containers.md", "docker", ROOT, "tests/deploy/test_image.py"),
    Elsewhere("docs/deploy/systemd.md", "python3 -m venv", ROOT),
    Elsewhere("docs/deploy/systemd.md", "useradd", ROOT, "tests/deploy/test_booted.py"),
    Elsewhere("docs/deploy/systemd.md", "systemctl", ROOT, "tests/deploy/test_booted.py"),
    Elsewhere("docs/engines/vllm.md", "kvstowd", "vLLM and the weights of a model", shown_by="examples/vllm_demo/server.py"),
    # Python.
    Elsewhere("README.md", "import hashlib", "compared with the page below", "tests/client/test_document.py"),
    Elsewhere("docs/client.md", "import hashlib", "run with a daemon of its own", "tests/client/test_document.py"),
    Elsewhere("docs/cuda.md", "from kvstow.client import FenceSlots", GPU, shown_by="bench/gpu_check"),
)  # fmt: skip


def entry_for(block: Block) -> Elsewhere | None:
    """What the table says of a block."""
    return next((entry for entry in TABLE if entry.covers(block)), None)
