"""The books of the daemon: pure decisions, no I/O, no clock, no lock, no randomness."""
