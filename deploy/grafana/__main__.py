"""Write the dashboards; with `--check` nothing is written, and the exit code is 1 when one is not fresh."""

import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from . import memory, overview, sessions, transfers
from .parts import Dashboard, built

FOLDER = Path(__file__).parent / "dashboards"
DASHBOARDS = (overview.DASHBOARD, transfers.DASHBOARD, sessions.DASHBOARD, memory.DASHBOARD)


def text(dashboard: Dashboard) -> str:
    """The file of a dashboard."""
    return JSONEncoder(sort_keys=True, indent=2).encode(built(dashboard)) + "\n"


def main() -> int:
    """Write all of them, or compare."""
    files = {FOLDER / f"{each.name}.json": text(each) for each in DASHBOARDS}
    if "--check" not in sys.argv[1:]:
        for path, content in files.items():
            path.write_text(content, encoding="utf-8")
        return 0
    found = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    stale = sorted(
        str(path) for path in files.keys() | found.keys() if files.get(path) != found.get(path)
    )
    sys.stdout.writelines(
        f"{path} is not what its code says: run 'make dashboards'\n" for path in stale
    )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
