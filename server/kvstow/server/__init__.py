"""The KV-cache daemon `kvstowd`: its pure core, its devices and its gRPC surface."""
