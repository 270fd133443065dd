"""The gRPC surface: the only place in the daemon where protobuf is known."""
