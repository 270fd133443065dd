"""Whether a TCP address can be bound. gRPC would say why not in lines of its own log only. Any thread may ask."""

import socket


def check_free(address: str) -> None:
    """Bind it for an instant.

    Args:
        address: host and port; one of the addresses that the host stands for is enough.

    Raises:
        OSError: the address is taken, or is none of this machine.
    """
    host, _, port = address.rpartition(":")
    refusal = None
    for family, kind, protocol, _, place in socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM
    ):
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
                return
        except OSError as error:
            refusal = error
    if refusal is not None:
        raise refusal
