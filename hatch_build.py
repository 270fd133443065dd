"""Build hook: compiles the span-copy kernel that the host device loads through ctypes.

The kernel is a plain C shared object without a Python ABI, so a wheel that has it is tagged for
its platform only. It is optional: without a C compiler the build warns and goes on, and the
device copies with numpy instead.
"""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DEVICE = "server/kvstow/server/device"
SOURCE = f"{DEVICE}/copy_spans.c"
LIBRARY = f"{DEVICE}/_copy_spans.so"


class CopyKernelHook(BuildHookInterface[Any]):
    """Runs before a wheel or an editable install is made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernel in place; ship it in the wheel when that worked.

        `version` is the kind of build ("standard", "editable"); both need the library.
        """
        root = Path(self.root)
        failure = _compile(root / SOURCE, root / LIBRARY)
        if failure is not None:
            self.app.display_warning(f"kvstow: built without the copy kernel: {failure}")
            return
        build_data["artifacts"].append(LIBRARY)  # the library is ignored by git, yet shipped
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"


def _compile(source: Path, library: Path) -> str | None:
    """Compile `source` to `library`; say why not, leaving no library, when it fails."""
    fresh = library.with_suffix(".so.new")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, "-O3", "-shared", "-fPIC", "-o", str(fresh), str(source)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        library.unlink(missing_ok=True)
        return f"cannot run {shlex.join(compiler)!r}: {error.strerror}"
    except subprocess.CalledProcessError as error:
        library.unlink(missing_ok=True)
        return f"{shlex.join(command)} failed:\n{error.stderr}"
    fresh.replace(library)  # a rename, so that a daemon that has the old one mapped keeps it
    return None
