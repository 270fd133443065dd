"""What moves bytes: one protocol (`base`) and its implementations."""
