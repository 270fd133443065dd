"""What kvstow costs, measured: `python -m bench`; see README.md."""
