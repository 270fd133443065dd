"""`kvstow`, and `python -m kvstow.cli`."""

import sys
from importlib import import_module
from importlib.metadata import version

from .runtime import unmet


def main() -> None:
    """Run the command that the command line names."""
    if complaint := unmet(version):
        sys.exit(f"kvstow: {complaint}. Install what kvstow needs: pip install --upgrade kvstow")
    import_module("kvstow.cli.app").app()  # imports the generated code


if __name__ == "__main__":
    main()
