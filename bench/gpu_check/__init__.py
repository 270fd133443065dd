"""The check that needs a GPU: that bytes arrive, that fences hold, that memory comes back, and how fast it all is.

One daemon, kvstowd as it is installed, and one engine, this process with torch: two processes, as CUDA IPC wants it.
`--dry-run` goes through the same plan, smaller, with everything in one process over the model of the driver: it shows that
the script is sound, and nothing about a GPU.
"""
