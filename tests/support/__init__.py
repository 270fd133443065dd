"""What tests of several parts share: clocks, waiting, engines, daemons in this process and in processes of their own."""
