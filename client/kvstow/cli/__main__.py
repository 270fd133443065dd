"""`kvstow`, and `python -m kvstow.cli`."""

from .app import app


def main() -> None:
    """Run the command that the command line names."""
    app()


if __name__ == "__main__":
    main()
