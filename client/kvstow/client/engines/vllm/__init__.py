"""The connector for vLLM; docs/engines/vllm.md shows how to use it. Importing this needs vLLM."""

from .connector import KvstowConnector

__all__ = ["KvstowConnector"]
