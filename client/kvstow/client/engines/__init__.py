"""Adapters to the connector interfaces of inference engines."""
