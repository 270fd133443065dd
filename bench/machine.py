"""What the figures were measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("grpcio", "protobuf", "numpy")
GIGABYTE = 1 << 30


def machine() -> dict[str, Any]:
    """Facts about the machine, and how busy others keep it."""
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "cache": _largest_cache(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE),
        "transparent_huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "load_average": os.getloadavg()[0],
    }


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _largest_cache() -> str:
    sizes = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    return sizes[-1].read_text().strip() if sizes else "unknown"


def _chosen(path: str) -> str:
    file = Path(path)
    text = file.read_text() if file.exists() else ""
    return text.partition("[")[2].partition("]")[0] or "unknown"
