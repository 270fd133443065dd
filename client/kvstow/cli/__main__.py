"""`kvstow`, and `python -m kvstow.cli`."""

import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

from .runtime import unmet


def main() -> None:
    """Run the command that the command line names."""
    os.environ.setdefault(
        "GRPC_VERBOSITY", "NONE"
    )  # its lines would stand beside the one of the error
    if complaint := unmet(version):
        _end(f"{complaint}. Install what kvstow needs: pip install --upgrade kvstow")
    try:
        commands = import_module("kvstow.cli.app")  # imports the generated code
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "kvstow":
            raise
        _end(
            f"{missing} is not installed. Install what kvstow needs: pip install 'kvstow[cli]'"
            " (at the root of a checkout: pip install '.[cli]')"
        )
    commands.app()


def _end(complaint: str) -> NoReturn:
    sys.stderr.write(f"kvstow: {complaint}\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
