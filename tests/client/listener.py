"""A session in a process of its own: `python -m client.listener TARGET` says the kind of each event, and "reopened"."""

import sys

from client.spaces import identity
from kvstow.client import Callbacks, Client, SessionEvent
from support.client_engine import PATIENT


def say(what: str) -> None:
    """One line."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def hear(event: SessionEvent) -> None:
    """Say what was heard."""
    say(type(event).__name__)


def main() -> None:
    """Listen until the input ends."""
    with (
        Client(sys.argv[1], PATIENT) as client,
        client.open(identity(), "engine", callbacks=Callbacks(hear, lambda: say("reopened"))),
    ):
        say("open")
        sys.stdin.read()


if __name__ == "__main__":
    main()
