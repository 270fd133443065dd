"""The kernel's files, below a root, so that tests can describe other machines.

What cannot be read, because it does not exist here or because this user may not, is None: a check then
says that it does not know, or nothing.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """This machine as the kernel shows it.

    Args:
        root: of its file systems.
        statvfs: `os.statvfs`, or a stand-in.
    """

    root: Path = Path("/")
    statvfs: Callable[[Path], os.statvfs_result] = os.statvfs

    def path(self, name: str) -> Path:
        """Where a file of the machine is; `name` is absolute."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """Content of a file."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def number(self, name: str) -> int | None:
        """Content of a file that holds one number."""
        text = self.text(name)
        return int(text) if text is not None and text.isdecimal() else None

    def link(self, name: str) -> str | None:
        """Where a symbolic link leads."""
        try:
            return os.readlink(self.path(name))
        except OSError:
            return None

    def matching(self, pattern: str) -> Sequence[str]:
        """The files that match, as absolute names, sorted."""
        found = self.root.glob(pattern.lstrip("/"))
        return sorted(f"/{path.relative_to(self.root)}" for path in found)

    def space(self, name: str) -> tuple[int, int] | None:
        """Size and free space of the file system that holds a directory, in bytes."""
        try:
            found = self.statvfs(self.path(name))
        except OSError:
            return None
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def entry_count(self, name: str) -> int | None:
        """How many entries a directory has."""
        try:
            return len(os.listdir(self.path(name)))
        except OSError:
            return None
