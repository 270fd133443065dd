"""What tests of several kinds ask of the copies of a daemon."""

from kvstow.client import Client
from kvstow.v1 import transfer_pb2


def runs(client: Client) -> bool:
    """Whether a copy has begun; before that its transfer would end at once."""
    running = transfer_pb2.TRANSFER_STATE_RUNNING
    return any(found.state == running for found in client.administration.transfers().transfers)
