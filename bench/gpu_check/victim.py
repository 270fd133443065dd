"""The engine that is killed: stores without end, in a process of its own."""

import sys

from kvstow.client import Client

from .checks import VICTIM, store_without_end
from .torch_gpu import TorchGpu


def main() -> None:
    """Store until the end of the process."""
    with Client(sys.argv[1]) as client:
        store_without_end(client, TorchGpu(), VICTIM, lambda: print("storing", flush=True))


if __name__ == "__main__":
    main()
