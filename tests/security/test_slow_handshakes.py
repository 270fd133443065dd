"""A handshake takes long where machines are busy; who waits for it is connected in the end."""

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvstow.client import Client, Credentials
from security.authority import Authority
from security.test_tls import address_of, tls_settings
from support.client_engine import PATIENT
from support.kvstowd import running_kvstowd

LATE_S = 2.0
"""What the way to the daemon takes, once for each connection: more than a machine that is idle ever needs."""


def test_a_client_is_connected_however_long_a_busy_machine_takes(directory: Path) -> None:
    authority = Authority(directory)
    with (
        running_kvstowd(directory, insecure=True, **tls_settings(directory, authority)) as daemon,
        late(address_of(daemon)) as address,
        Client(address, PATIENT, Credentials(authority.file)) as client,
    ):
        assert client.server_info().boot_id


@contextmanager
def late(address: str) -> Iterator[str]:
    """The address of somebody who hands on what is sent, but begins late."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=[listener, address], daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def serve(listener: socket.socket, address: str) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # it was shut down
            return
        threading.Thread(target=hand_on, args=[client, address], daemon=True).start()


def hand_on(client: socket.socket, address: str) -> None:
    """Both ways, until one side ends."""
    time.sleep(LATE_S)
    host, _, port = address.rpartition(":")
    with client, suppress(OSError), socket.create_connection((host, int(port))) as daemon:
        hears = {client: daemon, daemon: client}
        while True:
            for speaker in select.select(list(hears), [], [])[0]:
                if not (content := speaker.recv(1 << 16)):
                    return
                hears[speaker].sendall(content)
