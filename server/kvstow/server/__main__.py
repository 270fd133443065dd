"""`kvstowd`, and `python -m kvstow.server`."""

import sys
from importlib import import_module


def main() -> int:
    """Run the daemon with the process's command line; returns the exit code."""
    try:
        process = import_module("kvstow.server.process")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "kvstow":
            raise
        sys.stderr.write(
            f"kvstowd: {missing} is not installed. Install what kvstowd needs:"
            " pip install 'kvstow[server]' (at the root of a checkout: pip install '.[server]')\n"
        )
        return 2
    code: int = process.main()
    return code


if __name__ == "__main__":
    sys.exit(main())
