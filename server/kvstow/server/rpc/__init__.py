"""The gRPC surface: the only place in the daemon where protobuf is known."""

import os

# gRPC's older poller answers a small call over a Unix socket about a tenth sooner than its event
# engine (grpcio 1.85, two cores). gRPC reads this once, when it is loaded, which in the daemon
# happens below this package and nowhere else; an engine's process is not ours to tune. Releases
# that do not know these names ignore them.
os.environ.setdefault(
    "GRPC_EXPERIMENTS",
    "-event_engine_client,-event_engine_listener,"
    "-event_engine_for_all_other_endpoints,-event_engine_callback_cq",
)
