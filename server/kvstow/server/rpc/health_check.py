"""`python -m kvstow.server.rpc.health_check`: whether the daemon with these settings takes work; 0 if it does, 1 if not.

For the health checks of container engines. It reads the settings that the daemon reads from the environment and its file, asks the
health service on the Unix socket, which wants no token, and says in one line what it heard.
"""

import os
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from kvstow.server.config import PREFIX, Config

from .unix_socket import SocketPath

_ANSWER_S = 5.0


def main() -> int:
    """Ask; returns the exit code."""
    config = Config(config=os.environ.get(f"{PREFIX}CONFIG") or None)
    target = SocketPath(config.socket).target
    with grpc.insecure_channel(target) as channel:
        try:
            request = health_pb2.HealthCheckRequest()
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=_ANSWER_S)
        except grpc.RpcError as error:
            sys.stdout.write(f"{target} does not answer: {error.details()}\n")
            return 1
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    sys.stdout.write(f"{status}\n")
    return 0 if status == "SERVING" else 1


if __name__ == "__main__":
    sys.exit(main())
