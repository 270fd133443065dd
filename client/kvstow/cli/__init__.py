"""The command line `kvstow`: shows and steers a running daemon, and plans for one."""
