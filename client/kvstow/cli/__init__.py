"""The command-line client `kvstow`: shows and steers a running daemon."""
