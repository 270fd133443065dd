"""The client an engine imports: gRPC and protobuf only, never server code."""
